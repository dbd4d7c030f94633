"""The commands of the documentation, run as they stand against a gateway on real engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import RunningGateway
from tests.test_docs import blocks

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Looks like the checkout, so that pages may name its files; what a command writes stays out of it."""
    directory = tmp_path_factory.mktemp("checkout")
    for path in Path(__file__).parents[2].iterdir():
        (directory / path.name).symlink_to(path)
    return directory


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("page", "block"), list(blocks("sh")))
def test_commands_of_a_page_work(gateway: RunningGateway, checkout: Path, page: str, block: str) -> None:
    """Each block ends with status 0; its URL is the running gateway's."""
    script = "set -euo pipefail\n" + block.replace("http://127.0.0.1:8000", gateway.url).replace(
        "curl ", "curl --fail "
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=checkout,
        env={**os.environ, "PATH": path},
        timeout=360,
    )
    assert result.returncode == 0, result.stdout + result.stderr
