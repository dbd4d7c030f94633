"""A registry with a clock that tests move, and artifacts in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from serving.registry.artifact import Artifact
from serving.registry.manifest import Description
from serving.registry.store import Store


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **span: float) -> None:
        self.time += timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Store:
    return Store(tmp_path / "registry", now=clock)


@pytest.fixture
def describe() -> Callable[..., Description]:
    """A description whose fields are plain, but for those given."""

    def make(**fields: Any) -> Description:
        return Description(
            **{"kind": "base", "name": "m", "licence": "Apache-2.0", "format": "gguf"} | fields
        )

    return make


@pytest.fixture
def publish(store: Store, describe: Callable[..., Description], tmp_path: Path) -> Callable[..., Artifact]:
    """Publish one file of the given content."""

    def make(content: bytes = b"weights", *, version: str | None = None, **fields: Any) -> Artifact:
        source = tmp_path / "model.gguf"
        source.unlink(missing_ok=True)
        source.write_bytes(content)
        return store.publish(source, describe(**fields), version=version)

    return make
