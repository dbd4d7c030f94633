"""What becomes of requests when clients leave and engines die."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import httpx
import openai
import pytest

from tests.integration.conftest import RunningGateway, started_gateway

pytestmark = pytest.mark.engines

LONG = {
    "messages": [{"role": "user", "content": "Tell a long story."}],
    "max_tokens": 400,
    "ignore_eos": True,
}


def gauge(url: str, name: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def wait_for(claim, timeout_s: float = 20.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)


def is_idle(url: str) -> bool:
    names = ("tierwise_requests_in_flight", "tierwise_replica_in_flight", "tierwise_queue_length")
    return all(gauge(url, name) == 0 for name in names)


def test_killed_engine_ends_the_stream_with_an_error_and_comes_back() -> None:
    """SIGKILL in mid-stream: the client gets an error event and an end, the next request is served, nothing leaks."""
    with (
        started_gateway() as gateway,
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        stream = client.chat.completions.create(
            model="full", stream=True, extra_body=LONG, messages=LONG["messages"]
        )
        next(stream)
        victims = [pid for pid in gateway.children() if b"Q8_0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(victims) == 1
        os.kill(victims[0], signal.SIGKILL)
        with pytest.raises(openai.APIError, match="full"):
            list(stream)
        answer = client.chat.completions.create(
            model="full", messages=[{"role": "user", "content": "hi"}], max_tokens=4
        )
        assert answer.choices[0].message.content
        wait_for(lambda: is_idle(gateway.url))
        assert gauge(gateway.url, "tierwise_engine_restarts_total") == 1
        children = gateway.children()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_client_that_leaves_frees_the_engine(gateway: RunningGateway) -> None:
    """A client that leaves during a stream, or before an answer, takes nothing with it."""
    for is_streaming in (True, False):
        body = {"model": "full", "stream": is_streaming, **LONG}
        try:
            with httpx.stream(
                "POST", f"{gateway.url}/v1/chat/completions", json=body, timeout=0.5
            ) as response:
                for i, _ in enumerate(response.iter_bytes()):
                    if i == 3:
                        break
        except httpx.ReadTimeout:
            pass
        wait_for(lambda: is_idle(gateway.url), 5)


def test_ctrl_c_leaves_no_process() -> None:
    """SIGINT ends gateway and engines within seconds, a running stream included."""
    body = {"model": "full", "stream": True, **LONG}
    with started_gateway() as gateway:
        children = gateway.children()
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            began = time.monotonic()
            gateway.process.send_signal(signal.SIGINT)
            rest = list(lines)
        assert any('"error"' in line for line in rest), "the stream must say that it was cut"
        assert gateway.process.wait(20) == 0
        assert time.monotonic() - began < 10
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_kill_of_the_gateway_takes_its_engines_along() -> None:
    """Even SIGKILL of the gateway leaves no engine behind."""
    with started_gateway() as gateway:
        children = gateway.children()
        assert len(children) == 2
        gateway.process.kill()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 5)
