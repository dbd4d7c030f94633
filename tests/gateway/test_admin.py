"""`/admin/budget`: who may look and who may change, that a change is in force at once, checked, and written down."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from serving.gateway.audit import AuditLog
from serving.gateway.keys import KeyStore
from tests.fakes import MockUpstream
from tests.live_gateway import LiveGateway

SHARE = {"metric": "full_share", "target": 0.3}
AUTO = {"model": "auto"}


def live(
    home: Path, upstream: MockUpstream | None = None, budget: Mapping[str, Any] = SHARE, **more: Any
) -> LiveGateway:
    tiers = [upstream] if upstream else []
    return LiveGateway(
        {"fast": tiers, "full": tiers}, settings={"home": str(home), "budget": dict(budget)}, **more
    )


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def audited(home: Path) -> list[dict[str, Any]]:
    path = home / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def admin(tmp_path: Path) -> dict[str, str]:
    """An admin key's headers."""
    return bearer(KeyStore(tmp_path / "keys.json").create("ops", is_admin=True))


async def test_a_change_is_in_force_at_once(tmp_path: Path, admin: dict[str, str]) -> None:
    """The next request is decided at the λ that was set, and the answer shows what is in force."""
    async with MockUpstream() as upstream, live(tmp_path, upstream) as gateway:
        assert (await gateway.chat(AUTO)).headers["x-tierwise-arm"] == "full"
        await gateway.idle()  # an answer is there before what it took is booked, and that moves the state
        change = {"mode": "manual", "price_of_compute": 5.0}
        answer = await gateway.http.put("/admin/budget", json=change, headers=admin)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert (told["terms"]["mode"], told["terms"]["target"], told["price_of_compute"]) == (
            "manual",
            0.3,
            5.0,
        )
        assert told["state"]["price_of_compute"] == 5.0
        assert (await gateway.http.get("/admin/budget")).json() == told
        assert (await gateway.chat(AUTO)).headers["x-tierwise-arm"] == "fast"


async def test_every_change_is_written_down(tmp_path: Path, admin: dict[str, str]) -> None:
    """Who, when, from what to what; one line each, in a file for the owner alone."""
    async with live(tmp_path) as gateway:
        for target in (0.2, 0.1):
            await gateway.http.put("/admin/budget", json={"target": target}, headers=admin)
        await gateway.http.put("/admin/budget", json={"target": -1}, headers=admin)
    lines = audited(tmp_path)
    assert [(line["by"], line["from"]["target"], line["to"]["target"]) for line in lines] == [
        ("ops", 0.3, 0.2),
        ("ops", 0.2, 0.1),
    ]
    assert lines[0]["at"].endswith("+00:00")
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


async def test_a_change_outlives_a_kill(tmp_path: Path, admin: dict[str, str]) -> None:
    """When the answer is there, the change is on the disk."""
    async with live(tmp_path) as gateway:
        await gateway.http.put("/admin/budget", json={"target": 0.2}, headers=admin)
        async with live(tmp_path) as other:
            assert other.budget.terms == gateway.budget.terms
            assert other.budget.terms.target == 0.2


async def test_what_cannot_be_written_down_is_not_done(tmp_path: Path, admin: dict[str, str]) -> None:
    """With no place for the audit log the answer is an error and the terms are those from before."""
    (tmp_path / "audit.jsonl").mkdir()
    async with live(tmp_path) as gateway:
        answer = await gateway.http.put("/admin/budget", json={"target": 0.2}, headers=admin)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "audit_failed")
        assert gateway.budget.terms.target == 0.3


async def test_changes_at_once_are_one_after_the_other(tmp_path: Path, admin: dict[str, str]) -> None:
    """Each line of the log begins where the one before ended."""
    async with live(tmp_path) as gateway:
        targets = [i / 20 for i in range(1, 13)]
        changes = (
            gateway.http.put("/admin/budget", json={"target": target}, headers=admin) for target in targets
        )
        await asyncio.gather(*changes)
        lines = audited(tmp_path)
        assert sorted(line["to"]["target"] for line in lines) == targets
        assert [line["from"]["target"] for line in lines] == [
            0.3,
            *(line["to"]["target"] for line in lines[:-1]),
        ]
        assert gateway.budget.terms.target == lines[-1]["to"]["target"]


@pytest.mark.parametrize("header", [None, "Basic x", "Bearer", "Bearer wrong"])
async def test_without_an_admin_key_nothing_is_changed(tmp_path: Path, header: str | None) -> None:
    """On loopback too: before there is one, with none or a wrong one, and with an API key."""
    headers = {} if header is None else {"authorization": header}
    async with live(tmp_path) as gateway:

        async def refused(headers: dict[str, str]) -> tuple[int, str]:
            answer = await gateway.http.put("/admin/budget", json={"target": 0.2}, headers=headers)
            assert answer.headers["x-request-id"]
            return answer.status_code, answer.json()["error"]["code"]

        assert await refused(headers) == (403, "no_admin_key")
        keys = KeyStore(tmp_path / "keys.json")
        app = bearer(keys.create("app"))
        ops = bearer(keys.create("ops", is_admin=True))
        await asyncio.sleep(1.1)  # a running gateway looks at the file once a second
        assert await refused(headers) == (401, "invalid_api_key")
        assert await refused(app) == (403, "not_an_admin_key")
        assert gateway.budget.terms.target == 0.3
        assert not audited(tmp_path)
        assert (await gateway.http.put("/admin/budget", json={"target": 0.2}, headers=ops)).status_code == 200


async def test_looking_takes_an_admin_key_where_the_api_takes_a_key(tmp_path: Path) -> None:
    """An API key opens the API and an admin key the administration, and neither the other."""
    keys = KeyStore(tmp_path / "keys.json")
    app, ops = bearer(keys.create("app")), bearer(keys.create("ops", is_admin=True))
    async with MockUpstream() as upstream, live(tmp_path, upstream, keys=keys) as gateway:
        statuses = [
            (await gateway.http.get("/admin/budget", headers=headers)).status_code
            for headers in ({}, app, ops)
        ]
        assert statuses == [401, 403, 200]
        assert [(await gateway.chat(AUTO, headers=headers)).status_code for headers in (app, ops)] == [
            200,
            401,
        ]


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({}, None, "Nothing to change"),
        ({"targett": 0.2}, "targett", "known are metric, target"),
        ({"target": 1.5}, None, "at most 1 for `full_share`"),
        ({"target": "much"}, "target", "valid number"),
        ({"mode": "automatic"}, "mode", "'auto'"),
        ({"mode": "manual"}, None, "`price_of_compute` is needed"),
        ({"price_of_compute": 0.2}, "price_of_compute", "`manual`"),
        ({"target": None}, None, "`price_of_compute` is needed"),
        ({"metric": "cost_per_request", "target": -1}, None, "at least 0"),
        ({"metric": "cost_per_request"}, "target", "in its own unit"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    tmp_path: Path, admin: dict[str, str], members: dict[str, Any], param: str | None, message: str
) -> None:
    """400 in OpenAI's shape, with the member at fault, and nothing is changed."""
    async with live(tmp_path) as gateway:
        before = gateway.budget.terms
        answer = await gateway.http.put("/admin/budget", json=members, headers=admin)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert message in error["message"]
        assert gateway.budget.terms is before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"{", 400, "invalid_json"), (b"[1]", 400, "invalid_json"), (b" " * 70_000, 413, "request_too_large")],
)
async def test_what_is_no_small_object_is_refused(
    tmp_path: Path, admin: dict[str, str], body: bytes, status: int, code: str
) -> None:
    """Neither a broken body nor a huge one is taken in."""
    async with live(tmp_path) as gateway:
        answer = await gateway.http.put("/admin/budget", content=body, headers=admin)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_target_can_be_set_where_there_was_none_and_taken_away(
    tmp_path: Path, admin: dict[str, str]
) -> None:
    """From a fixed price to a held budget and back."""
    async with live(tmp_path, budget={}) as gateway:
        shown = (await gateway.http.get("/admin/budget")).json()
        assert (shown["terms"]["target"], shown["state"], shown["price_of_compute"]) == (None, None, 500.0)
        answer = await gateway.http.put("/admin/budget", json=SHARE, headers=admin)
        assert answer.json()["state"]["target"] == 0.3
        fixed = {"mode": "manual", "price_of_compute": 0.2}
        assert (await gateway.http.put("/admin/budget", json=fixed, headers=admin)).json()[
            "price_of_compute"
        ] == 0.2
        back = {"metric": "cost_per_request", "target": None, "mode": "auto"}
        answer = await gateway.http.put("/admin/budget", json=back, headers=admin)
        assert (answer.json()["state"], answer.json()["price_of_compute"]) == (None, 500.0)


def test_lines_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    """Two logs on one file, from many threads: every line is whole."""
    from concurrent.futures import ThreadPoolExecutor

    logs = [AuditLog(tmp_path / "audit.jsonl") for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: logs[i % 2].append({"n": i, "pad": "x" * 2000}), range(60)))
    assert sorted(line["n"] for line in audited(tmp_path)) == list(range(60))
