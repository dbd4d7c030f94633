"""A budget through the life of a process: held while it serves, changed from outside, taken up after a restart."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import httpx

from serving.gateway.keys import KeyStore
from tests.fakes import MockUpstream
from tests.live_gateway import HI, config_file, serving_process

OPTIONS = ("--set", "budget.metric=full_share", "--set", "budget.target=0.3")


async def test_a_budget_outlives_its_process(tmp_path: Path) -> None:
    """λ moves by itself; a change by an operator and λ are there again after SIGTERM and a second start."""
    admin = {"authorization": f"Bearer {KeyStore(tmp_path / 'keys.json').create('ops', is_admin=True)}"}
    async with MockUpstream() as fast, MockUpstream() as full, httpx.AsyncClient(timeout=20) as http:
        config = config_file(tmp_path / "t.toml", {"fast": fast, "full": full})
        async with serving_process("--config", config, *OPTIONS, cwd=tmp_path) as running:

            async def budget() -> dict[str, object]:
                return dict((await http.get(f"{running.url}/admin/budget")).json())

            body = {"model": "auto", "messages": HI}
            answers = [await http.post(f"{running.url}/v1/chat/completions", json=body) for _ in range(10)]
            tiers = [answer.headers["x-tierwise-tier"] for answer in answers]
            assert tiers[0] == "full"  # nothing is known yet
            assert "fast" in tiers
            async with asyncio.timeout(10):
                while not (await budget())["price_of_compute"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            change = {"target": 0.2, "mode": "frozen"}
            changed = await http.put(f"{running.url}/admin/budget", json=change, headers=admin)
            assert changed.status_code == 200
            before = await budget()
            graded = {"request_id": answers[0].headers["x-request-id"], "success": True}
            assert (await http.post(f"{running.url}/v1/feedback", json=graded)).json()["arm"] == "full"
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
        async with serving_process("--config", config, *OPTIONS, cwd=tmp_path) as running:
            after = await budget()
            assert (after["terms"], after["price_of_compute"]) == (
                before["terms"],
                before["price_of_compute"],
            )
            again = await http.post(f"{running.url}/v1/feedback", json=graded)
            assert again.json()["arm"] == "full"
            assert "tierwise_budget_target" in (await http.get(f"{running.url}/metrics")).text
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["by"], line["to"]["target"]) for line in lines] == [("ops", 0.2)]
