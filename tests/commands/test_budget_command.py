"""`tierwise budget`: what a running gateway holds, as a table and as JSON, and a change of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from router.offer import Metric
from serving.commands import budget
from serving.gateway.keys import KeyStore
from tests.fakes import MockUpstream
from tests.live_gateway import LiveGateway

Capture = pytest.CaptureFixture[str]
SHARE = {"metric": "full_share", "target": 0.3, "quality_floor": 0.8}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the shipped one, and no key in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TIERWISE_CONFIG", "TIERWISE_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An admin key in the environment."""
    monkeypatch.setenv("TIERWISE_ADMIN_KEY", KeyStore(tmp_path / "keys.json").create("ops", is_admin=True))


def live(home: Path, terms: Mapping[str, Any] = SHARE, upstream: MockUpstream | None = None) -> LiveGateway:
    tiers = [upstream] if upstream else []
    return LiveGateway({"fast": tiers, "full": tiers}, settings={"home": str(home), "budget": dict(terms)})


async def run(gateway: LiveGateway, *argv: str) -> int:
    return await asyncio.to_thread(budget.main, [*argv, "--url", gateway.url])


async def test_show(tmp_path: Path, capsys: Capture) -> None:
    """Target, λ with its unit, what came of it, and in words what stands in the way."""
    async with MockUpstream() as upstream, live(tmp_path, upstream=upstream) as gateway:
        assert await run(gateway, "show") == 0
        shown = capsys.readouterr().out
        assert "full_share ≤ 0.3, mode auto" in shown
        assert "λ" in shown
        assert "per request of the strongest tier" in shown
        assert "not known yet" in shown
        answers = [await gateway.chat({"model": model}) for model in ("full", "auto") * 3]
        is_full = [answer.headers["x-tierwise-tier"] == "full" for answer in answers]
        gateway.budget.tick()
        assert await run(gateway, "show") == 0
        shown = capsys.readouterr().out
        assert "! no λ takes as little as the target" in shown
        assert await run(gateway, "show", "--json") == 0
        realised = json.loads(capsys.readouterr().out)["state"]["realised"]
        assert realised == pytest.approx(sum(is_full) / len(is_full), abs=0.01)
        assert realised > 0.3


@pytest.mark.usefixtures("admin")
async def test_set(tmp_path: Path, capsys: Capture) -> None:
    """Each option is a member of the budget; the gateway holds it when the command is over."""
    async with live(tmp_path) as gateway:
        options = (
            "--metric",
            "cost_per_hour",
            "--target",
            "4",
            "--quality-floor",
            "0.5",
            "--winner",
            "budget",
        )
        assert await run(gateway, "set", *options, "--mode", "manual", "--price-of-compute", "7") == 0
        assert "cost_per_hour ≤ 4, mode manual" in capsys.readouterr().out
        terms = gateway.budget.terms
        assert (terms.metric, terms.target, terms.quality_floor, terms.price_of_compute) == (
            Metric.COST_PER_HOUR,
            4,
            0.5,
            7,
        )
        assert await run(gateway, "set", "--target", "-1") == 1
        refused = capsys.readouterr()
        assert refused.out == ""
        assert refused.err.startswith("tierwise: the gateway refused: ")
        assert "at least 0" in refused.err


async def test_without_a_key_the_remedy_is_told(tmp_path: Path, capsys: Capture) -> None:
    """Where there is no admin key at all, and where none was sent."""
    async with live(tmp_path) as gateway:
        assert await run(gateway, "set", "--target", "0.2") == 1
        assert "tierwise keys create NAME --admin" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://127.0.0.1", "127.0.0.1:8000"])
def test_where_no_gateway_is(url: str, capsys: Capture) -> None:
    """One line with the URL and what to do."""
    assert budget.main(["show", "--url", url]) == 1
    told = capsys.readouterr().err
    assert url in told
    assert told.count("\n") == 1


async def test_something_else_that_answers_is_told(tmp_path: Path, capsys: Capture) -> None:
    """An engine's own server is no gateway."""
    async with MockUpstream() as upstream:
        assert await asyncio.to_thread(budget.main, ["show", "--url", upstream.url]) == 1
        assert "tierwise: the gateway refused: no such path" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["set"], ["set", "--mode", "fast"], ["set", "--target", "x"], []])
def test_wrong_use(argv: list[str], capsys: Capture) -> None:
    """Nothing to set, or nothing that could be: status 2."""
    with pytest.raises(SystemExit) as ended:
        budget.main(argv)
    assert ended.value.code == 2


def test_every_metric_has_a_unit() -> None:
    """λ is never shown without saying what it is a price of."""
    assert set(budget.UNITS) == set(Metric)


def test_help_teaches_by_examples(capsys: Capture) -> None:
    """The verb and each sub-verb show examples."""
    for verb, examples in budget.EXAMPLES.items():
        with pytest.raises(SystemExit) as ended:
            budget.main([*verb.split(), "--help"])
        assert ended.value.code == 0
        assert examples.strip() in capsys.readouterr().out
