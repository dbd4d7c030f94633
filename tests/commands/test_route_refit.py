"""`tierwise route refit`: starts a gateway of its own, asks, fits, publishes; goes on where it was; refuses others'."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from router.arms import Arm
from router.difficulty import Assessment, Forecast
from router.outcome_table import table_of
from router.outcomes import OutcomeRow
from router.request import RequestView
from serving.bringup.progress import LineReport
from serving.commands.outcomes_file import OutcomesFile, read_outcomes
from serving.commands.route_collect_client import Sampling
from serving.commands.route_refit import main
from serving.commands.route_refit_figures import Before, row_of, standing
from serving.commands.route_refit_gateway import OwnGatewayError, asking, own_gateway
from serving.commands.route_refit_plan import pace
from serving.commands.route_refit_subject import parents_of, pinned, sign, subject_of
from serving.registry.manifest import Description
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from serving.settings import Settings
from tests.fakes import Fault, MockUpstream, Script
from tests.live_gateway import config_file

PRICE = {"input": 1.0, "output": 1.0}
EASY = ["name", "colour", "animal", "city", "river", "song"]
HARD = ["prove", "integral", "matrix", "theorem", "compute", "lemma"]
NUM = 210
GREEDY = Sampling(max_tokens=32, temperature=0.0)


def says(text: str) -> Script:
    return Script(tokens=(text,), prompt_tokens=7)


def questions(path: Path) -> Path:
    """Prompts of which `odd` answers most easy ones, and `even` most hard ones."""
    generator = np.random.default_rng(0)
    lines = []
    for place in range(NUM):
        is_hard = generator.random() < 0.65
        words = " ".join(generator.choice(HARD if is_hard else EASY, 10))
        answer = "even" if (generator.random() < 0.85) is bool(is_hard) else "odd"
        lines.append({"domain": "words", "level": 0, "prompt": f"{place}: {words}", "answer": answer})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def row(place: int, arm: str = "fast", **members: Any) -> OutcomeRow:
    known = {
        "prompt_id": f"p/{place}",
        "domain": "words",
        "level": 0,
        "prompt": f"the prompt {place}",
        "arm": arm,
        "model": "mock-model",
        "success": True,
        "answer": "x",
        "num_input_tokens": 1,
        "num_output_tokens": 1,
        "cost": 2.0 if arm == "full" else 1.0,
        "created_at": float(place),
    }
    return OutcomeRow(**(known | members))


def processes_of(directory: Path) -> list[str]:
    """The command lines that name it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if str(directory) in line:
            found.append(line)
    return found


class Refits:
    """The command as processes, with a home and a place for temporary files below one directory."""

    def __init__(self, directory: Path, config: str) -> None:
        self._directory = directory
        self._argv = ["--config", config, "--home", str(directory / "home")]
        self._argv += ["--prompts", str(questions(directory / "questions.jsonl"))]
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        self._started: list[asyncio.subprocess.Process] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._started:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def start(self, *argv: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tierwise", "route", "refit", *self._argv, *argv),
            cwd=Path(__file__).parents[2],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        return process

    @property
    def outcomes(self) -> Path | None:
        return next((self._directory / "home" / "refits").glob("*/outcomes.jsonl"), None)


@pytest.mark.timeout(400)
async def test_stopped_goes_on_fits_and_publishes(tmp_path: Path) -> None:
    """SIGTERM midway ends the gateway too and keeps what was answered; the same command asks the rest alone, publishes,
    points the alias, and says how it did beside what decided before."""
    async with (
        MockUpstream(says("odd")) as cheap,
        MockUpstream(says("even")) as dear,
        Refits(tmp_path, config_file(tmp_path / "t.toml", {"fast": cheap, "full": dear})) as refits,
    ):
        stopped = await refits.start()
        await dear.until(lambda: any("chat" in one.path for one in dear.requests), timeout_s=150)
        dear.script = Script(tokens=("even",), fault=Fault.STALL)
        await dear.until(lambda: dear.num_active == 8, timeout_s=60)  # all at a time
        assert processes_of(refits.temporary)
        stopped.send_signal(signal.SIGTERM)
        _, told = await asyncio.wait_for(stopped.communicate(), 60)
        assert stopped.returncode == 130, told.decode()
        assert b"the same command goes on" in told
        assert processes_of(refits.temporary) == []
        assert list(refits.temporary.iterdir()) == []

        assert refits.outcomes is not None
        num_kept = len(read_outcomes(refits.outcomes))
        assert 0 < num_kept < 2 * NUM
        dear.script = says("even")
        shown, told = await (again := await refits.start("--json", "--folds", "2")).communicate()
        assert again.returncode == 0, told.decode()
        assert b"fast: mock-model at" in told
    said = json.loads(shown)
    rows = read_outcomes(refits.outcomes)
    assert len({one.key for one in rows}) == len(rows) == 2 * NUM
    assert said["num_asked"] == 2 * NUM - num_kept
    assert processes_of(refits.temporary) == []
    store = Store(tmp_path / "home" / "registry")
    alias = store.aliases.get(parse_alias("router@candidate"))
    assert alias is not None
    assert said["kept"][0] == str(alias.target)
    assert said["before"][0]["name"].startswith("heuristic-1")
    assert set(said["after"]["figures"]) == {"fast", "full"}
    assert said["after"]["figures"]["fast"]["auc"] > 0.65
    assert said["after"]["apgr"] > 0.5
    assert not (tmp_path / "home" / "ledger.sqlite").exists()  # what was asked is no traffic


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Two tiers where nobody listens."""
    return config_file(tmp_path / "t.toml", {"fast": "http://127.0.0.1:1", "full": "http://127.0.0.1:1"})


def refit(config: str, tmp_path: Path, *argv: str) -> int:
    return main(["--config", config, "--home", str(tmp_path / "home"), "--n", "3", *argv])


def test_dry_run_asks_nothing(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says of whom how many answers are missing, at which pace, and leaves nothing behind."""
    before = signal.getsignal(signal.SIGTERM)
    assert refit(config, tmp_path, "--dry-run", "--publish", "router@stable") == 0
    said = capsys.readouterr().out
    assert "fast (mock-model), full (mock-model)" in said
    assert "6 of 6 answers to 3 prompts" in said
    assert "the pace of the released tiers" in said
    assert "publish as router@stable" in said
    assert not (tmp_path / "home").exists()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--set", "tiers.full.engine.model=another"], "where full was mock-model, and it is another"),
        (["--max-tokens", "64"], "asked with --max-tokens 32, and this is 64"),
    ],
)
def test_another_tiers_file_is_refused(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: list[str], told: str
) -> None:
    """Outcomes of other weights, or asked otherwise, are not added to; the remedy is said."""
    outcomes = tmp_path / "outcomes.jsonl"
    settings = Settings.model_validate(
        {
            "tiers": {
                name: {
                    "engine": {"type": "external", "urls": ["http://x"], "model": "mock-model"},
                    "price": PRICE,
                }
                for name in ("fast", "full")
            }
        }
    )
    with OutcomesFile(outcomes) as file:
        file.append(row(0))
    sign(outcomes, subject_of(settings, Store(tmp_path), GREEDY))
    whole = outcomes.read_bytes()
    assert refit(config, tmp_path, "--outcomes", str(outcomes), "--dry-run") == 0
    assert refit(config, tmp_path, "--outcomes", str(outcomes), *change) == 1
    said = capsys.readouterr().err
    assert told in said
    assert "name a new file" in said
    assert outcomes.read_bytes() == whole


def test_file_of_unknown_tiers_is_refused(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `route collect` wrote says models' names alone, which two versions may share."""
    outcomes = tmp_path / "outcomes.jsonl"
    with OutcomesFile(outcomes) as file:
        file.append(row(0))
    assert refit(config, tmp_path, "--outcomes", str(outcomes)) == 1
    assert "outcomes.tiers.json" in capsys.readouterr().err


def test_one_arm_is_no_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A single tier is told before anything is started."""
    config = config_file(tmp_path / "t.toml", {"fast": "http://127.0.0.1:1"})
    assert refit(config, tmp_path) == 1
    assert "fast is the only arm" in capsys.readouterr().err


def test_gateway_that_cannot_start_says_why(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own last words come through, with status 1."""
    assert refit(config, tmp_path, "--set", "tiers.fast.engine.api_key_env=NOT_SET_HERE") == 1
    said = capsys.readouterr().err
    assert "the gateway did not start" in said
    assert "$NOT_SET_HERE is not set" in said


async def test_gateway_ends_with_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure inside the block leaves no process."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    async with MockUpstream() as upstream:
        tree = {"fast": {"engine": {"type": "external", "urls": [upstream.url]}, "price": PRICE}}
        settings = Settings.model_validate({"home": str(tmp_path), "tiers": tree})
        said: list[str] = []

        async def fail() -> None:
            async with own_gateway(settings, log=tmp_path / "log", report=LineReport(said.append)) as url:
                assert url.startswith("http://127.0.0.1:")
                assert processes_of(temporary)
                raise OwnGatewayError("inside")

        with pytest.raises(OwnGatewayError, match="inside"):
            await fail()
    assert said
    assert processes_of(temporary) == []


def test_asking_gateway_has_the_tiers_alone(tmp_path: Path) -> None:
    """No budget, exploration, hold-back, shadow, key or foreign ledger of the settings gets between; arms stay."""
    tier = {"engine": {"type": "external", "urls": ["http://x"]}, "price": PRICE}
    settings = Settings.model_validate(
        {
            "gateway": {"host": "0.0.0.0", "require_key": True},
            "tiers": {"fast": tier, "full": tier},
            "arms": [
                {"name": "one", "tier": "fast", "request": {"seed": 1}},
                {"name": "two", "tier": "full"},
            ],
            "router": {"exploration_share": 0.3, "escalation": {"enabled": True}},
            "budget": {"target": 0.1},
            "ledger": {"url": "postgresql://x/y"},
            "shadow": {"share": 0.5, "max_cost_per_hour": 1.0},
        }
    )
    own = asking(settings, tmp_path)
    assert (own.tiers, own.arms) == (settings.tiers, settings.arms)
    assert own.gateway.host == "127.0.0.1"
    assert not own.gateway.require_key
    assert own.budget.target is own.ledger.url is None
    assert not own.router.escalation.enabled
    assert own.router.exploration_share == own.shadow.share == 0


def test_subject_follows_versions(tmp_path: Path) -> None:
    """An alias that moves makes another subject, parents are what it pointed at, and threads make no difference."""
    store = Store(tmp_path / "registry")
    versions = []
    for text in ("one", "two"):
        (tmp_path / "m.delta").write_text(text)
        description = Description(kind="policy", name="m", licence="MIT", format="layers-delta-1")
        versions.append(store.publish(tmp_path / "m.delta", description).reference)
    (tmp_path / "own.gguf").write_text("own")

    def of(**engine: Any) -> Settings:
        tiers = {
            "fast": {"model": "fast@stable", "engine": {"type": "llamacpp", **engine}, "price": PRICE},
            "full": {"model": str(tmp_path / "own.gguf"), "engine": {"type": "llamacpp"}, "price": PRICE},
        }
        settings = Settings.model_validate({"home": str(tmp_path), "tiers": tiers})
        return pinned(settings, store)

    alias = parse_alias("fast@stable")
    store.aliases.point(alias, versions[0], by="test")
    before = subject_of(of(), store, GREEDY)
    assert [(parent.role, parent.reference) for parent in parents_of(of())] == [("fast", versions[0])]
    assert subject_of(of(threads=3), store, GREEDY) == before
    assert subject_of(of(quantization="Q4_0"), store, GREEDY).digest != before.digest
    store.aliases.point(alias, versions[1], by="test")
    after = subject_of(of(), store, GREEDY)
    assert (
        before.difference(after) == f"where fast was {versions[0]} in Q8_0, and it is {versions[1]} in Q8_0"
    )
    (tmp_path / "own.gguf").write_text("changed")
    told = after.difference(subject_of(of(), store, GREEDY))
    assert told is not None
    assert told.startswith("where full was ")


def test_pace_leaves_pauses_out() -> None:
    """Seconds from answer to answer; a night between two runs does not count, and a few rows tell nothing."""
    rows = [row(n, created_at=2.0 * n + (50_000 if n > 30 else 0)) for n in range(60)]
    assert pace(rows) == pytest.approx(2.0)
    assert pace(rows[:10]) is None


def test_settings_that_would_not_start_do_not_end_a_refit(tmp_path: Path) -> None:
    """An artifact that is not there any more is told of, and the heuristic taken for what decided before."""
    tier = {"engine": {"type": "external", "urls": ["http://x"]}, "price": PRICE}
    settings = Settings.model_validate({"tiers": {"fast": tier}, "router": {"artifact": "router:gone"}})
    (before,) = standing(settings, Store(tmp_path), parse_alias("router@candidate"))
    assert before.model.version.startswith("heuristic-1")
    assert "as configured it would not start" in before.name


class Knows:
    """Says of every prompt that the fast arm will, or will not, answer it."""

    version = "knows"
    watched = ()

    def __init__(self, answers: Mapping[str, float]) -> None:
        self._answers = answers

    def assess(self, view: RequestView, arms: list[Arm]) -> Assessment:
        raise NotImplementedError

    def contributions(self, view: RequestView) -> dict[str, float]:
        raise NotImplementedError

    def forecast(self, view: RequestView, arms: list[Arm]) -> dict[str, Forecast]:
        fast = self._answers[view.turns[0]]
        return {
            arm.name: Forecast(success_probability=fast if arm.name == "fast" else 1.0, num_output_tokens=1.0)
            for arm in arms
        }


def test_before_is_judged_on_the_same_outcomes() -> None:
    """Who knows what the fast arm cannot do has the best order, who says the opposite the worst."""
    truth = {f"the prompt {n}": float(n % 2) for n in range(40)}
    rows = [
        row(n, arm, success=arm == "full" or n % 2 == 1, prompt=prompt)
        for n, prompt in enumerate(truth)
        for arm in ("fast", "full")
    ]
    table = table_of([*rows, row(40, "full", success=False)])
    truth["the prompt 40"] = 1.0
    good = row_of(Before(name="good", model=Knows(truth)), table)  # type: ignore[arg-type]
    bad = row_of(Before(name="bad", model=Knows({k: 1 - v for k, v in truth.items()})), table)  # type: ignore[arg-type]
    assert good.apgr is not None
    assert bad.apgr is not None
    assert good.apgr > 0.7 > 0.3 > bad.apgr
    assert good.figures["fast"].auc == 1.0
    assert bad.figures["fast"].auc == 0.0
