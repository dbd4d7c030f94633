"""A gateway on real engines, started by the command that the README tells a user to run, once for all tests here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

START_TIMEOUT_S = 120


class RunningGateway:
    """A `tierwise` process and what it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self.url = ""
        self._is_up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_up(self) -> None:
        assert self._is_up.wait(START_TIMEOUT_S), "".join(self.output)
        assert self.url, "".join(self.output)

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def stop(self) -> None:
        """End it if it still runs, and whatever it left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self._reader.join(5)
            assert self.process.stdout is not None
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line)
            if match := re.search(r"tierwise serves on (http://\S+)/v1", line):
                self.url = match.group(1)
                self._is_up.set()
        self._is_up.set()


@contextmanager
def started_gateway(*arguments: str) -> Iterator[RunningGateway]:
    """`tierwise up` on a free port, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tierwise", "up", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    gateway = RunningGateway(process)
    try:
        gateway.wait_until_up()
        yield gateway
    finally:
        gateway.stop()


@pytest.fixture(scope="session")
def gateway() -> Iterator[RunningGateway]:
    """The gateway with its two real tiers."""
    with started_gateway() as running:
        yield running


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    """The official client, pointed at it. Retries are off, so that a test sees what the gateway answers."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
        yield made
