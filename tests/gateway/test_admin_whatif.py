"""`GET /admin/whatif`: who may ask, what is refused, one at a time; and a gateway's own requests, asked afterwards."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.difficulty import StructuralHeuristic
from router.policy import RoutingPolicy
from serving.commands import ledger as ledger_command
from serving.gateway import whatif
from serving.gateway.keys import KeyStore
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.tables import attempt_row, decision_row, feedback_row
from serving.ledger.whatif import Answer
from tests.fakes import MockUpstream
from tests.live_gateway import LiveGateway
from tests.synthetic_ledger import BEGAN, write

SHARE = {"metric": "full_share", "target": 0.3}


def live(home: Path, upstream: MockUpstream | None = None, **more: Any) -> LiveGateway:
    tiers = [upstream] if upstream else []
    return LiveGateway(
        {"fast": tiers, "full": tiers}, settings={"home": str(home), "budget": dict(SHARE)}, **more
    )


@pytest.fixture
def admin(tmp_path: Path) -> dict[str, str]:
    """An admin key's headers."""
    key = KeyStore(tmp_path / "keys.json").create("ops", is_admin=True)
    return {"authorization": f"Bearer {key}"}


async def ask(gateway: LiveGateway, headers: dict[str, str], query: str = "target=0.2") -> httpx.Response:
    return await gateway.http.get(f"/admin/whatif?{query}", headers=headers)


async def test_several_targets_in_one_answer(tmp_path: Path, admin: dict[str, str]) -> None:
    """By commas or by repetition; each has its intervals."""
    write(tmp_path, 3000)
    async with live(tmp_path) as gateway:
        told = await ask(gateway, admin, "target=0.2,0.4&target=0.5&price=0.4&exploration_share=0")
    assert told.status_code == 200, told.text
    body = told.json()
    assert body["object"] == "what_if"
    assert body["began"] == BEGAN
    asked = [(one["target"], one["price_of_compute"]) for one in body["answers"]]
    assert asked == [(0.2, None), (0.4, None), (0.5, None), (None, 0.4)]
    assert body["answers"][0]["success"]["then"]["low"] < body["answers"][0]["success"]["then"]["high"]


async def test_it_takes_an_admin_key(tmp_path: Path, admin: dict[str, str]) -> None:
    """None and another are refused, in OpenAI's shape; nothing is worked out."""
    other = KeyStore(tmp_path / "keys.json").create("app")
    async with live(tmp_path) as gateway:
        assert (await ask(gateway, {})).status_code == 401
        refused = await ask(gateway, {"authorization": f"Bearer {other}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_an_admin_key")


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("", "target"),
        ("target=", "target"),
        ("target=x", "target"),
        ("target=0", "target"),
        ("target=nan", "target"),
        ("target=" + ",".join(["0.1"] * 51), "target"),
        ("price=-1", "price"),
        ("target=0.1&metric=money", "metric"),
        ("target=0.1&since=yesterday", "since"),
        ("target=0.1&exploration_share=1", "exploration_share"),
        ("target=0.1&exploration_share=x", "exploration_share"),
        ("target=0.1&sinse=7d", "sinse"),
    ],
)
async def test_what_makes_no_sense_is_400(
    tmp_path: Path, admin: dict[str, str], query: str, param: str
) -> None:
    """The error names the parameter at fault."""
    async with live(tmp_path) as gateway:
        refused = await ask(gateway, admin, query)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_a_time_without_requests_is_404(tmp_path: Path, admin: dict[str, str]) -> None:
    """There is no decision to look at."""
    write(tmp_path, 100)
    async with live(tmp_path) as gateway:
        told = await ask(gateway, admin, "target=0.2&since=7d")
    assert (told.status_code, told.json()["error"]["code"]) == (404, "nothing_decided")


async def test_without_a_ledger_there_is_none_to_ask(tmp_path: Path, admin: dict[str, str]) -> None:
    """503 where it cannot be read, told without its path."""
    async with live(tmp_path) as gateway:
        refused = await ask(gateway, admin)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "ledger_unavailable")
    assert str(tmp_path) not in refused.text


async def test_one_at_a_time(tmp_path: Path, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is worked out the gateway goes on answering, and another is told to come again; then it may."""
    write(tmp_path, 100)
    may_end, has_begun = threading.Event(), threading.Event()
    real = whatif.answer

    def slow(*args: Any, **more: Any) -> Answer:
        has_begun.set()
        may_end.wait(10)
        return real(*args, **more)

    monkeypatch.setattr(whatif, "answer", slow)
    async with MockUpstream() as upstream, live(tmp_path, upstream) as gateway:
        first = asyncio.create_task(ask(gateway, admin))
        await gateway.until(has_begun.is_set)
        busy = await ask(gateway, admin)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "what_if_busy")
        assert busy.headers["retry-after"] == "1"
        assert (await gateway.chat({"model": "auto"})).status_code == 200
        may_end.set()
        assert (await first).status_code == 200
        assert (await ask(gateway, admin)).status_code == 200


async def test_a_gateways_own_requests_are_replayed_and_asked(
    tmp_path: Path, admin: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Real requests with a lot and grades: each decision comes out of the ledger as it was made, and the policy of the
    day as it was: shares near those counted, costs as they were paid."""
    policy = RoutingPolicy(StructuralHeuristic(), exploration_share=0.5)
    async with MockUpstream() as upstream, live(tmp_path, upstream, policy=policy) as gateway:
        for number in range(120):
            content = (
                "hi" if number % 2 else f"Prove that the square root of {number} is irrational, step by step."
            )
            answer = await gateway.chat({"model": "auto", "messages": [{"role": "user", "content": content}]})
            grade = {"request_id": answer.headers["x-request-id"], "success": number % 3 > 0}
            assert (await gateway.http.post("/v1/feedback", json=grade)).status_code == 200
        await gateway.chat({"model": "fast"})
        await gateway.idle()
        keep(gateway, tmp_path)
        assert ledger_command.main(["replay", "--home", str(tmp_path)]) == 0
        assert "121 decisions came out as they did" in capsys.readouterr().out
        price = gateway.books.decisions[-1].middle_price
        told = (await ask(gateway, admin, f"price={price}")).json()
    (one,) = told["answers"]
    decided = gateway.books.decisions
    assert (told["num_decided"], told["num_looked_at"]) == (121, 121)
    assert one["success"]["num_outcomes"] == 120
    assert one["success"]["observed"] == pytest.approx(2 / 3)
    assert one["cost"]["observed"] == pytest.approx(sum(d.cost for d in decided) / 121)
    full = sum(d.arm == "full" for d in decided) / 121
    assert one["shares"]["now"]["full"] == pytest.approx(full, abs=0.2)
    assert one["taken"]["observed"] == pytest.approx(full)


def keep(gateway: LiveGateway, home: Path) -> None:
    """Write what the gateway has recorded into a ledger, as its own would."""
    database = LedgerDatabase(ledger_url(None, home))
    database.write(
        1,
        decision_rows=[decision_row(record) for record in gateway.books.decisions],
        attempt_rows=[attempt_row(record, recorded_at=1.0) for record in gateway.books.attempts],
        feedback_rows=[feedback_row(record) for record in gateway.books.feedback],
    )
    database.close()
