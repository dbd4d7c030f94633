"""What is written after a search: a configuration that the gateway loads, and a table."""

from __future__ import annotations

import io
import random
from datetime import date
from pathlib import Path

import orjson
from rich.console import Console

from loadtests.tuning.figures import Objective
from loadtests.tuning.findings import Findings, Outcome
from loadtests.tuning.report import Subject, as_json, render, toml
from loadtests.tuning.search import Search
from loadtests.tuning.servers import tier_config
from loadtests.tuning.space import Defaults, Setting, llamacpp_space
from serving.engines.external import ExternalSettings
from serving.engines.llamacpp import LlamaCppSettings
from serving.settings_sources import load_settings
from tests.loadtests.tuning.simulated_engine import Workshop

SPACE = llamacpp_space(Defaults(threads=2, threads_alone=1, slots=8))
SUBJECT = Subject(
    model="full@stable",
    model_sha256="ab" * 32,
    engine="llama.cpp of xllamacpp 1",
    machine="a machine",
    day=date(2026, 12, 1),
    objective=Objective.ALONE,
    num_candidates=15,
)


async def found_in(workshop: Workshop) -> Findings:
    search = Search(
        SPACE,
        workshop.open,
        objective=Objective.ALONE,
        allows_lossy=False,
        deadline_s=1e6,
        clock=workshop.clock,
        rng=random.Random(1),
        tell=lambda line: None,
    )
    await search.run()
    return search.findings


def written(findings: Findings, tmp_path: Path, fixed: Setting | None = None) -> tuple[str, Path]:
    text = toml(findings, SUBJECT, tier_config("quick", "full@stable", {**(fixed or {}), **findings.best}))
    path = tmp_path / "tuned.toml"
    path.write_text(text)
    return text, path


async def test_what_was_found_is_a_tier(tmp_path: Path) -> None:
    """The settings that the gateway reads are those confirmed, beside what was laid down; comments say why."""
    speeds = {("threads_alone", 2): 1.3, ("compute.repack", False): 1.25}
    findings = await found_in(Workshop(seed=1, speeds=speeds, noise=0.02))
    assert findings.best == {"threads_alone": 2, "compute.repack": False}
    text, path = written(findings, tmp_path, {"context_tokens": 512})
    tier = load_settings(path, {}, {}).tiers["quick"]
    assert isinstance(tier.engine, LlamaCppSettings)
    assert tier.model == "full@stable"
    assert (tier.engine.threads_alone, tier.engine.compute.repack, tier.engine.context_tokens) == (
        2,
        False,
        512,
    )
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    for word in (
        "a machine",
        "ab" * 32,
        "2026-12-01",
        "confirmed",
        "streams=16",
        "first-token",
        "the same as",
    ):
        assert any(word in line for line in comments), word
    (alone,) = (line for line in comments if line.startswith("#   alone"))
    assert "× 1.6" in alone
    assert "tokens/s" in alone
    assert max(map(len, comments)) < 160


async def test_the_default_stays(tmp_path: Path) -> None:
    """Where nothing pays the file says so, and is the tier as it would be without it."""
    text, path = written(await found_in(Workshop()), tmp_path)
    assert "the default stays" in text
    assert load_settings(path, {}, {}).tiers["quick"].engine == LlamaCppSettings()


def test_every_candidate_is_a_setting(tmp_path: Path) -> None:
    """Each value of each knob is one that a tier takes."""
    for knob in SPACE:
        for value in knob.candidates:
            tree = tier_config("quick", "m.gguf", {knob.name: value})
            (tmp_path / "one.toml").write_text(toml(Findings(), SUBJECT, tree))
            assert load_settings(tmp_path / "one.toml", {}, {}).tiers["quick"].engine != LlamaCppSettings()


async def test_what_was_interrupted_is_not_called_confirmed(tmp_path: Path) -> None:
    """It is written with the race that it won, and on which servers."""
    findings = await found_in(Workshop(speeds={("threads_alone", 2): 1.5}))
    findings.confirmation, findings.outcome = [], Outcome.INTERRUPTED
    text, _ = written(findings, tmp_path)
    assert "interrupted before it was confirmed" in text
    assert "alone × 1." in text
    assert "over the default, on servers kept running" in text


def test_a_server_that_runs_by_itself(tmp_path: Path) -> None:
    """An external tier, and beside it the command that starts what was measured."""
    engine = {"type": "external", "urls": ["http://127.0.0.1:8000"], "model": "tuned"}
    tree = {"tiers": {"quick": {"engine": engine, "price": {"input": 1.0, "output": 4.0}}}}
    text = toml(Findings(), SUBJECT, tree, command=["env", "A=1", "python", "-m", "vllm", '{"mode": 0}'])
    assert "#   env A=1 python -m vllm '{\"mode\": 0}'" in text
    (tmp_path / "one.toml").write_text(text)
    assert isinstance(load_settings(tmp_path / "one.toml", {}, {}).tiers["quick"].engine, ExternalSettings)


async def test_table_and_json_tell_of_every_candidate() -> None:
    """Lossy and broken ones with the reason; who is in front has a star."""
    workshop = Workshop(
        speeds={("threads_alone", 2): 1.5},
        noise=0.001,
        wave=0.0,
        lossy={"compute.repack": False},
        broken={"compute.load": "mlock"},
    )
    findings = await found_in(workshop)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render(findings, SUBJECT))
    text = console.export_text()
    assert "threads_alone=2 *" in text
    assert "other greedy answers: lossy" in text
    assert "did not run: no such kernel" in text
    told = orjson.loads(orjson.dumps(as_json(findings, SUBJECT)))
    assert told["best"] == {"threads_alone": 2}
    assert told["gain"]["alone"]["low"] > 1
    assert len(told["candidates"]) == len(findings.trials)
