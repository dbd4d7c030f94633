"""Tests do not read the settings of whoever runs them; those on real engines do, to find the prepared tiers."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("engines") is None:
        for name in [name for name in os.environ if name.startswith("TIERWISE_")]:
            monkeypatch.delenv(name)
