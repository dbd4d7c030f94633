BEGIN TRANSACTION;
CREATE TABLE attempts (
	id INTEGER NOT NULL,
	recorded_at DOUBLE NOT NULL,
	request_id TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	arm TEXT NOT NULL,
	tier TEXT NOT NULL,
	replica TEXT NOT NULL,
	started_s DOUBLE NOT NULL,
	first_byte_s DOUBLE,
	first_token_s DOUBLE,
	ended_s DOUBLE NOT NULL,
	is_committed BOOLEAN NOT NULL,
	status INTEGER,
	outcome TEXT NOT NULL,
	error TEXT,
	prompt_tokens BIGINT,
	completion_tokens BIGINT,
	cached_tokens BIGINT,
	drafted_tokens BIGINT,
	accepted_tokens BIGINT,
	cost DOUBLE NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "attempts" VALUES(1,1001.0,'old-1',0,'fast','fast','http://127.0.0.1:1',0.01,0.1,0.25,1.25,1,200,'success',NULL,12,34,5,NULL,NULL,0.002);
CREATE TABLE decisions (
	id INTEGER NOT NULL,
	request_id TEXT NOT NULL,
	created_at DOUBLE NOT NULL,
	endpoint TEXT NOT NULL,
	"key" TEXT,
	session TEXT,
	model TEXT NOT NULL,
	is_streaming BOOLEAN NOT NULL,
	arm TEXT,
	tier TEXT,
	reason TEXT,
	success_probability DOUBLE,
	expected_cost DOUBLE,
	metric TEXT,
	price_of_compute DOUBLE,
	propensity DOUBLE,
	policy_version TEXT,
	artifact_version TEXT,
	candidates TEXT NOT NULL,
	num_input_chars BIGINT NOT NULL,
	status INTEGER NOT NULL,
	error_code TEXT,
	num_attempts INTEGER NOT NULL,
	total_s DOUBLE NOT NULL,
	cost DOUBLE NOT NULL,
	prompt TEXT,
	PRIMARY KEY (id)
);
INSERT INTO "decisions" VALUES(1,'old-1',1000.0,'chat','app',NULL,'auto',1,'fast','fast','best_value',0.9,0.1,'cost_per_request',500.0,1.0,'value-2','structure-1','[{"arm":"fast","p":0.9,"weighed":0.9,"cost":0.1,"seconds":0.5,"full":0.0,"excluded":null}]',20,200,NULL,1,1.25,0.002,NULL);
CREATE TABLE feedback (
	id INTEGER NOT NULL,
	request_id TEXT NOT NULL,
	recorded_at DOUBLE NOT NULL,
	"key" TEXT,
	source TEXT NOT NULL,
	score DOUBLE NOT NULL,
	arm TEXT NOT NULL,
	tier TEXT NOT NULL,
	success_probability DOUBLE NOT NULL,
	propensity DOUBLE NOT NULL,
	artifact_version TEXT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "feedback" VALUES(1,'old-1',1001.0,'app','client',1.0,'fast','fast',0.9,1.0,'structure-1');
CREATE TABLE meta (
	name VARCHAR(100) NOT NULL,
	value BIGINT NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('schema',2);
CREATE INDEX ix_decisions_created_at ON decisions (created_at);
CREATE INDEX ix_decisions_request_id ON decisions (request_id);
CREATE INDEX ix_attempts_recorded_at ON attempts (recorded_at);
CREATE INDEX ix_attempts_request_id ON attempts (request_id);
CREATE INDEX ix_feedback_request_id ON feedback (request_id);
CREATE INDEX ix_feedback_recorded_at ON feedback (recorded_at);
COMMIT;
