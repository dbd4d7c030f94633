"""Tests of I/O run on both loops: the gateway uses uvloop, whose transports are not asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


@pytest.hookimpl
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every async test of this room, twice."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
