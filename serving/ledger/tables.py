"""The ledger's tables, in SQLAlchemy Core, and how a record becomes a row."""

from __future__ import annotations

from math import isfinite
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

from serving.ledger.credentials import mask_credentials
from serving.ledger.records import AttemptRecord, DecisionRecord, FeedbackRecord, Usage

SCHEMA_VERSION: Final = 3

Row = dict[str, Any]

metadata = MetaData()


class ForeignText(TypeDecorator[str]):
    """Text that came from outside: what a database may refuse in it, NUL and lone surrogates, is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as it is stored."""
        if value is None or value.isprintable():  # neither NUL nor a surrogate is printable
            return value
        return value.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="backslashreplace").decode()


class ShownText(ForeignText):
    """Foreign text that people will look at: credentials in it are masked before they are kept."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as it is stored."""
        return super().process_bind_param(None if value is None else mask_credentials(value), dialect)


class Money(TypeDecorator[float]):
    """A finite number: PostgreSQL would store a NaN, and every sum over it would be one."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """The number, or null in the place of one that is not finite."""
        return value if value is not None and isfinite(value) else None


# SQLite counts rows by an INTEGER alone; elsewhere its four bytes are too few.
_RowId = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""`schema`: the version of these tables. `writer:…`: the number of the last batch that a gateway wrote; its row goes
when the gateway closes the ledger, so that a row without a running gateway tells of one that was killed."""

decisions = Table(
    "decisions",
    metadata,
    Column("id", _RowId, primary_key=True),
    Column("request_id", ForeignText, nullable=False),  # not unique: a client may send one id twice
    Column("created_at", Double, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("key", ForeignText),
    Column("session", ForeignText),
    Column("model", ShownText, nullable=False),
    Column("is_streaming", Boolean, nullable=False),
    Column("arm", Text),
    Column("tier", Text),
    Column("reason", Text),
    Column("success_probability", Double),
    Column("expected_cost", Money),
    Column("metric", Text),
    Column("price_of_compute", Double),
    Column("propensity", Double),
    Column("quality_floor", Double),
    Column("is_curtailed", Boolean),
    Column("middle_price", Double),
    Column("spread", Double),
    Column("exploration_share", Double),
    Column("lot", Double),
    Column("policy_version", Text),
    Column("artifact_version", Text),
    Column("candidates", ForeignText, nullable=False),
    Column("num_input_chars", BigInteger, nullable=False),
    Column("status", Integer, nullable=False),
    Column("error_code", ShownText),
    Column("num_attempts", Integer, nullable=False),
    Column("total_s", Double, nullable=False),
    Column("cost", Money, nullable=False),
    Column("engine_seconds", Double),  # null in rows of schema 2
    Column("full_share", Double),
    Column("prompt", ForeignText),
    Index("ix_decisions_created_at", "created_at"),
    Index("ix_decisions_request_id", "request_id"),
)
"""One row a request, with the members of `DecisionRecord`."""

attempts = Table(
    "attempts",
    metadata,
    Column("id", _RowId, primary_key=True),
    Column("recorded_at", Double, nullable=False),
    Column("request_id", ForeignText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("arm", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("replica", Text, nullable=False),
    Column("started_s", Double, nullable=False),
    Column("first_byte_s", Double),
    Column("first_token_s", Double),
    Column("ended_s", Double, nullable=False),
    Column("is_committed", Boolean, nullable=False),
    Column("status", Integer),
    Column("outcome", Text, nullable=False),
    Column("error", ShownText),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("drafted_tokens", BigInteger),
    Column("accepted_tokens", BigInteger),
    Column("cost", Money, nullable=False),
    Column("purpose", Text, nullable=False, server_default="answer"),
    Column("parent", ForeignText),
    Index("ix_attempts_recorded_at", "recorded_at"),
    Index("ix_attempts_request_id", "request_id"),
)
"""One row an attempt, with the members of `AttemptRecord` and of its usage; `recorded_at` is when it ended, in Unix
time. An attempt without its decision belongs to a request that a kill cut short, unless its `purpose` says that it was
made for no client."""

feedback = Table(
    "feedback",
    metadata,
    Column("id", _RowId, primary_key=True),
    Column("request_id", ForeignText, nullable=False),
    Column("recorded_at", Double, nullable=False),
    Column("key", ForeignText),
    Column("source", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("arm", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("success_probability", Double, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("artifact_version", Text, nullable=False),
    Index("ix_feedback_recorded_at", "recorded_at"),
    Index("ix_feedback_request_id", "request_id"),
)
"""One row each time that an answer was graded, with the members of `FeedbackRecord`. Nothing is overwritten: of the
rows with one request id and source, the one of the greatest `id` counts."""

_DECISION_COLUMNS = tuple(column.name for column in decisions.columns if column.name != "id")
_ATTEMPT_COLUMNS = tuple(
    column.name for column in attempts.columns if column.name not in {"id", "recorded_at"}
)
_PATHS = {name: f"usage.{name}" for name in Usage.__dataclass_fields__} | {
    "outcome": "outcome.value",
    "purpose": "purpose.value",
}
_FEEDBACK_COLUMNS = tuple(column.name for column in feedback.columns if column.name != "id")
_feedback_values = attrgetter(*_FEEDBACK_COLUMNS)
_decision_values = attrgetter(*_DECISION_COLUMNS)
_attempt_values = attrgetter(*(_PATHS.get(name, name) for name in _ATTEMPT_COLUMNS))


def decision_row(record: DecisionRecord) -> Row:
    """The row of a decision."""
    return dict(zip(_DECISION_COLUMNS, _decision_values(record), strict=True))


def feedback_row(record: FeedbackRecord) -> Row:
    """The row of a grade."""
    return dict(zip(_FEEDBACK_COLUMNS, _feedback_values(record), strict=True))


def attempt_row(record: AttemptRecord, *, recorded_at: float) -> Row:
    """The row of an attempt."""
    return dict(zip(_ATTEMPT_COLUMNS, _attempt_values(record), strict=True), recorded_at=recorded_at)
