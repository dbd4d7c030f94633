"""`/v1/feedback`: a grade finds its decision, is kept, and moves what is said of the forecasts."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.gateway.keys import KeyStore
from serving.ledger.settings import LedgerSettings
from serving.ledger.store import Ledger
from tests.fakes import MockUpstream, Script
from tests.live_gateway import LiveGateway

AUTO = {"model": "auto"}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def grade(
    gateway: LiveGateway, headers: dict[str, str] | None = None, **members: Any
) -> httpx.Response:
    return await gateway.http.post("/v1/feedback", json=members, headers=headers)


async def answered(gateway: LiveGateway, **options: Any) -> str:
    """One answered request's id."""
    answer = await gateway.chat(AUTO, **options)
    assert answer.status_code == 200
    return str(answer.headers["x-request-id"])


def value(gateway: LiveGateway, name: str, **labels: str) -> float | None:
    return gateway.metrics.registry.get_sample_value(f"tierwise_feedback_{name}", labels)


async def test_a_grade_is_kept_with_its_decision() -> None:
    """What had been decided is in the record, so that it tells something by itself."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream], "full": [upstream]}) as gateway:
        request_id = await answered(gateway)
        told = await grade(gateway, request_id=request_id, success=True, source="verifier")
        assert told.json() == {
            "object": "feedback",
            "request_id": request_id,
            "arm": "fast",
            "score": 1.0,
            "source": "verifier",
        }
        (record,) = gateway.books.feedback
        (decision,) = gateway.books.decisions
        assert (record.request_id, record.source, record.score, record.key) == (
            request_id,
            "verifier",
            1.0,
            None,
        )
        for name in ("arm", "tier", "success_probability", "propensity", "artifact_version"):
            assert getattr(record, name) == getattr(decision, name)


async def test_it_can_come_before_the_request_has_ended() -> None:
    """A client that has read its stream need not wait for the gateway's own end of it."""
    async with MockUpstream(Script(itl_s=0.05)) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        stream = asyncio.create_task(gateway.stream(headers={"x-request-id": "mine"}))
        await upstream.until(lambda: upstream.requests)
        assert not gateway.books.decisions
        assert (await grade(gateway, request_id="mine", score=0.25)).status_code == 200
        await stream


async def test_the_metrics_compare_forecasts_and_grades() -> None:
    """Four successes of ten at forecasts of p: Brier and calibration error by hand; a grade given anew replaces."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream], "full": [upstream]}) as gateway:
        ids = [await answered(gateway) for _ in range(10)]
        for i, request_id in enumerate(ids):
            await grade(gateway, request_id=request_id, success=i < 5)
        await grade(gateway, request_id=ids[0], success=False, source="judge")
        p = gateway.books.feedback[0].success_probability
        assert value(gateway, "outcomes", arm="fast") == 10
        assert value(gateway, "mean_score", arm="fast") == pytest.approx(0.4)
        assert value(gateway, "brier_score", arm="fast") == pytest.approx(0.4 * (1 - p) ** 2 + 0.6 * p**2)
        assert value(gateway, "calibration_error", arm="fast") == pytest.approx(abs(p - 0.4))
        assert value(gateway, "total", arm="fast", source="client") == 10
        assert value(gateway, "total", arm="fast", source="judge") == 1
        assert len(gateway.books.feedback) == 11


async def test_a_request_is_its_keys_own(tmp_path: Path) -> None:
    """To another key it does not exist; without a key nothing is taken."""
    keys = KeyStore(tmp_path / "keys.json")
    one, other = bearer(keys.create("one")), bearer(keys.create("other"))
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}, keys=keys) as gateway:
        answer = await gateway.chat(headers=one)
        request_id = answer.headers["x-request-id"]
        unknown = await grade(gateway, other, request_id="req_nobody", success=True)
        foreign = await grade(gateway, other, request_id=request_id, success=True)
        assert unknown.status_code == foreign.status_code == 404
        assert unknown.text.replace("req_nobody", request_id) == foreign.text
        assert (await grade(gateway, request_id=request_id, success=True)).status_code == 401
        assert (await grade(gateway, one, request_id=request_id, success=True)).status_code == 200
        assert [record.key for record in gateway.books.feedback] == ["one"]


async def test_what_is_not_remembered_is_in_the_ledger(tmp_path: Path) -> None:
    """After a restart, or at another replica of the gateway; a request that never got an arm cannot be graded."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        await gateway.chat(headers={"x-request-id": "old"})
        await gateway.chat({"model": "nonsense"}, headers={"x-request-id": "refused"})
    ledger = Ledger(LedgerSettings(flush_interval_s=0.01), tmp_path)
    for decision in gateway.books.decisions:
        ledger.record_decision(decision)
    ledger.close()
    async with LiveGateway({"fast": []}, settings={"home": str(tmp_path)}) as again:
        assert (await grade(again, request_id="old", score=0.5)).json()["arm"] == "fast"
        refused = await grade(again, request_id="refused", score=0.5)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_answered")
        unknown = await grade(again, request_id="new", score=0.5)
        assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "request_id")


async def test_a_ledger_that_cannot_be_read_is_no_unknown_request(tmp_path: Path) -> None:
    """503 and when to come again: the request may well be known there."""
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database" * 100)
    async with LiveGateway({"fast": []}, settings={"home": str(tmp_path)}) as gateway:
        answer = await grade(gateway, request_id="x", success=True)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ledger_unavailable")
        assert answer.headers["retry-after"]


async def test_of_two_attempts_the_one_that_answered_is_graded() -> None:
    """The fast tier failed and the full one answered: the grade is the full one's."""
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        request_id = await answered(gateway)
        assert (await grade(gateway, request_id=request_id, success=True)).json()["arm"] == "full"


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({}, "request_id", "required"),
        ({"request_id": ""}, "request_id", "at least 1"),
        ({"request_id": "x" * 200}, "request_id", "at most 128"),
        ({"request_id": 7}, "request_id", "string"),
        ({"request_id": "x"}, None, "either `success`"),
        ({"request_id": "x", "success": True, "score": 1.0}, None, "either `success`"),
        ({"request_id": "x", "success": "yes"}, "success", "boolean"),
        ({"request_id": "x", "score": 1.5}, "score", "less than or equal to 1"),
        ({"request_id": "x", "score": "0.5"}, "score", "valid number"),
        ({"request_id": "x", "score": 1.0, "source": "me"}, "source", "'verifier'"),
        ({"request_id": "x", "score": 1.0, "comment": "nice"}, "comment", "known are request_id"),
    ],
)
async def test_what_is_no_grade_is_refused_by_name(
    members: dict[str, Any], param: str | None, message: str
) -> None:
    """400 in OpenAI's shape, with the member at fault."""
    async with LiveGateway({"fast": []}) as gateway:
        answer = await grade(gateway, **members)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert message in error["message"]
        assert answer.headers["x-request-id"]


async def test_it_is_in_the_ledgers_own_table(tmp_path: Path) -> None:
    """The whole way: what is sent is a row of the database when the ledger is closed."""
    ledger = Ledger(LedgerSettings(flush_interval_s=0.01), tmp_path)
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        request_id = await answered(gateway)
        await grade(gateway, request_id=request_id, score=0.75, source="shadow")
        ledger.record_feedback(gateway.books.feedback[0])
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        rows = connection.execute("select request_id, source, score, arm from feedback").fetchall()
    assert rows == [(request_id, "shadow", 0.75, "fast")]
