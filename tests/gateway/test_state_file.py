"""The file of a state: what is read is what was written, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.gateway.state_file import StateFile

SAVED = {
    "saved_at": 1.5,
    "terms": {"target": 0.1},
    "controller": {"debt": -1e-9, "n": 3, "list": [None, "ü"]},
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """To the last digit, also in a directory that was not there; the latest write counts."""
    file = StateFile(tmp_path / "home" / "budget.json")
    assert file.read() is None
    file.write({})
    file.write(SAVED)
    assert file.read() == SAVED


def test_a_file_that_was_touched_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cut short at any byte, or with one digit changed, it is damaged, and the log says so; nothing is raised."""
    path = tmp_path / "budget.json"
    file = StateFile(path)
    file.write(SAVED)
    whole = path.read_bytes().rstrip()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert file.read() is None
    for damaged in (
        whole.replace(b"0.1", b"0.2"),
        whole.replace(b'"format":1', b'"format":2'),
        b"[]",
        b"7",
        b"\xff",
    ):
        assert damaged != whole
        path.write_bytes(damaged)
        assert file.read() is None
    assert "begins anew" in caplog.text


def test_a_directory_in_its_place_is_no_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read or written is said once, and again after it has worked in between."""
    path = tmp_path / "budget.json"
    path.mkdir()
    file = StateFile(path)
    assert file.read() is None
    for _ in range(3):
        file.write(SAVED)
    assert caplog.text.count("is not saved") == 1
    path.rmdir()
    file.write(SAVED)
    path.unlink()
    path.mkdir()
    file.write(SAVED)
    assert caplog.text.count("is not saved") == 2
