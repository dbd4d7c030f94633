"""Tests do not read the settings of whoever runs them; those on real engines do, to find the prepared tiers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not any(map(request.node.get_closest_marker, ("engines", "vllm"))):
        for name in [name for name in os.environ if name.startswith("TIERWISE_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv(
            "XDG_DATA_HOME", str(tmp_path / "no-data-home")
        )  # nor the caller's registry and budget
