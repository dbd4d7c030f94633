"""The check of free space says how much is needed where."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from serving.bringup.errors import NoSpaceError
from serving.bringup.space import require_space


def test_too_small_a_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that need not exist yet is measured by its nearest existing parent; the margin counts."""
    asked = []

    def usage(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=100_000_000)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    place = tmp_path / "not" / "yet"
    require_space(place, 60_000_000)
    with pytest.raises(NoSpaceError, match=rf"112 MB are needed in {place}, 100 MB are free; .*--home DIR"):
        require_space(place, 80_000_000)
    assert asked == [tmp_path, tmp_path]


def test_the_real_disk_has_room_for_nothing(tmp_path: Path) -> None:
    """The real measure is used: a petabyte does not fit."""
    with pytest.raises(NoSpaceError):
        require_space(tmp_path, 10**15)
