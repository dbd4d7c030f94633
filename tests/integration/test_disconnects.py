"""Clients that vanish at random moments, on real engines."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.conftest import RunningGateway

pytestmark = pytest.mark.engines


@pytest.mark.timeout(400)
def test_random_disconnects_leave_nothing_behind(gateway: RunningGateway) -> None:
    """After 500 requests whose clients leave at random moments every gauge is zero and every slot answers again.

    `.ci/run` does the same with 2,000 on the mock engine.
    """
    command = [sys.executable, "-m", "tierwise", "bench", "disconnects", "--url", gateway.url]
    result = subprocess.run(
        [*command, "--requests", "500", "--concurrency", "16", "--max-tokens", "8", "--seed", "0"],
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert result.returncode == 0, result.stdout + result.stderr
