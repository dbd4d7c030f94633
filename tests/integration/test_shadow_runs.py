"""Shadow runs on real engines, which share a machine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import httpx
import pytest

from tests.integration.conftest import started_gateway

pytestmark = pytest.mark.engines

ON = ("--set", "shadow.share=1.0", "--set", "shadow.max_cost_per_hour=1.0")


def metrics(url: str, name: str) -> dict[str, float]:
    """A counter by its one label."""
    text = httpx.get(f"{url}/metrics").text
    return {label: float(value) for label, value in re.findall(rf'^{name}{{\w+="(\w+)"}} (\S+)$', text, re.M)}


def wait_for(claim: Callable[[], object], timeout_s: float = 60.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)


def ask(url: str, text: str, **body: object) -> httpx.Response:
    messages = [{"role": "user", "content": text}]
    return httpx.post(
        f"{url}/v1/chat/completions",
        json={"model": "fast", "temperature": 0, "messages": messages, **body},
        timeout=60,
    )


def num_runs(url: str) -> float:
    return sum(metrics(url, "tierwise_shadow_runs_total").values())


def test_the_full_tier_says_whether_the_fast_one_sufficed() -> None:
    """Short questions are asked of both, compared, graded and paid for; the clients' own figures do not move."""
    with started_gateway(*ON) as gateway:
        url = gateway.url
        questions = [f"What is {i} + 1? Answer with the number only." for i in range(4)]
        for i, question in enumerate(questions):
            answer = ask(url, question, max_tokens=16, stream=i % 2 == 0)
            assert answer.headers["x-tierwise-tier"] == "fast"
            wait_for(lambda expected=i + 1: num_runs(url) == expected)
        ends = metrics(url, "tierwise_shadow_runs_total")
        assert ends["failed"] == ends["shutdown"] == ends["gave_way"] == 0
        num_graded = ends["sufficed"] + ends["fell_short"]
        assert num_graded == 4
        assert 'tierwise_feedback_total{arm="fast",source="shadow"} 4.0' in httpx.get(f"{url}/metrics").text
        assert metrics(url, "tierwise_shadow_cost_total")["full"] > 0
        assert metrics(url, "tierwise_cost_total").get("full", 0) == 0


def test_a_client_comes_before_a_run() -> None:
    """A long run on the full tier ends when a client comes to the fast one, since both engines share the machine."""
    with started_gateway(*ON) as gateway:
        url = gateway.url
        ask(url, "Tell a long story.", max_tokens=200, ignore_eos=True)
        assert ask(url, "hi", max_tokens=4, n=2).status_code == 200
        wait_for(lambda: metrics(url, "tierwise_shadow_runs_total")["gave_way"] == 1)
