"""A measurement is found again by what was measured, and only by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from distill.line_up.cells import Cells
from train.run_directory import RunError


def test_what_was_kept_is_found(tmp_path: Path) -> None:
    """Under its key, in whatever order; not under another; the file says what it is of."""
    cells = Cells(tmp_path / "new" / "place")
    assert cells.find({"kind": "rates", "round": 0}) is None
    cells.keep({"kind": "rates", "round": 0}, {"full": 1.5})
    assert cells.find({"round": 0, "kind": "rates"}) == {"full": 1.5}
    assert cells.find({"kind": "rates", "round": 1}) is None
    (file,) = cells.directory.iterdir()
    assert '"round": 0' in file.read_text()


def test_a_damaged_one_is_said(tmp_path: Path) -> None:
    """With the remedy; it is never taken for a figure."""
    cells = Cells(tmp_path)
    cells.keep({"kind": "answers"}, [1])
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    with pytest.raises(RunError, match="delete it"):
        cells.find({"kind": "answers"})
