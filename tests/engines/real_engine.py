"""A real engine on real weights, for the tests that are marked `engines`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.engines.base import Launch
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.supervisor import free_port
from serving.engines.tether import tethered
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from serving.settings import default_home

START_TIMEOUT_S = 90
SMALL = {"slots": 4, "context_tokens": 1024, "prompt_cache_mib": 64}
"""Enough for every test here, and quickly started."""

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CLOCK: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "the time in a zone",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"type": "string", "maxLength": 30}},
            "required": ["zone"],
        },
    },
}
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}


def released(tier: str) -> Path:
    """The weights of `tier`: what $TIERWISE_TEST_<TIER>_GGUF names, else `<tier>@stable` of the registry."""
    if named := os.environ.get(f"TIERWISE_TEST_{tier.upper()}_GGUF"):
        return Path(named)
    home = Path(os.environ.get("TIERWISE_HOME") or default_home())
    try:
        return Store(home / "registry").model_path(f"{tier}@stable", verify=False)
    except RegistryError as error:
        pytest.fail(
            f"this test needs real weights ({error}): run `tierwise up` once, or set TIERWISE_TEST_{tier.upper()}_GGUF"
        )


class RunningEngine(httpx.Client):
    """A client of an engine that runs; every request on a connection of its own, which it asks for."""

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes]) -> None:
        super().__init__(
            base_url=launch.url,
            timeout=60,
            headers={"authorization": f"Bearer {launch.api_key}", "connection": "close"},
        )
        self.process = process

    def chat(self, *, is_ok: bool = True, **body: Any) -> dict[str, Any]:
        """The answer to a chat request; temperature 0 and no reuse of earlier prompts, unless said otherwise."""
        body = {"temperature": 0, "max_tokens": 24, "cache_prompt": False, "messages": [QUESTION], **body}
        response = self.post("/v1/chat/completions", json=body)
        answer: dict[str, Any] = response.json()
        assert (response.status_code == 200) is is_ok, answer
        return answer

    def message(self, **body: Any) -> dict[str, Any]:
        """The first choice's message."""
        message: dict[str, Any] = self.chat(**body)["choices"][0]["message"]
        return message

    def prompt(self, messages: list[dict[str, Any]], **body: Any) -> str:
        """The conversation as the template renders it."""
        return str(self.post("/apply-template", json={"messages": messages, **body}).json()["prompt"])


@contextmanager
def running(model: Path, draft_model: Path | None = None, **settings: Any) -> Iterator[RunningEngine]:
    """An engine on `model`, tied to this process."""
    engine = LlamaCppEngine(LlamaCppSettings.model_validate({**SMALL, **settings}), draft_model=draft_model)
    launch = engine.launch(tier="full", model=model, port=free_port())
    process = subprocess.Popen(
        tethered(launch.argv, os.getpid()),
        env={**os.environ, **launch.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with RunningEngine(launch, process) as client:
            _wait_until_ready(client)
            yield client
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_ready(client: RunningEngine) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up:
        assert client.process.poll() is None, "the engine ended while it was loading"
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail("the engine did not become ready")
