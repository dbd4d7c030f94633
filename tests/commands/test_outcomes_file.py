"""Tests of serving.commands.outcomes_file: what survives a cut, and who may write."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from router.outcomes import OutcomeRow
from serving.commands.outcomes_file import OutcomesFile, OutcomesFileError, read_outcomes

ROW = OutcomeRow(
    prompt_id="p", domain="sums", level=0, prompt="1 + 1?", arm="fast", model="m", success=True, answer="2 🙂\n",
    num_input_tokens=5, num_output_tokens=1, cost=0.5, created_at=10.0,
)  # fmt: skip
OTHER = replace(ROW, prompt_id="q")


def test_appended_rows_are_read_back(tmp_path: Path) -> None:
    """Rows are there for a reader at once, for the next writer, and from a gzipped copy."""
    path = tmp_path / "new" / "outcomes.jsonl"
    with OutcomesFile(path) as file:
        file.append(ROW)
        assert read_outcomes(path) == [ROW]
    with OutcomesFile(path) as file:
        file.append(OTHER)
        assert file.rows == [ROW, OTHER]
    packed = tmp_path / "outcomes.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_outcomes(packed) == [ROW, OTHER]


@pytest.mark.parametrize("num_cut", [1, 2, 40])
def test_cut_last_line(tmp_path: Path, num_cut: int) -> None:
    """A last line that was cut off is left out by a reader, and removed by a writer before it appends."""
    path = tmp_path / "outcomes.jsonl"
    with OutcomesFile(path) as file:
        file.append(ROW)
        file.append(OTHER)
    path.write_bytes(path.read_bytes()[:-num_cut])
    assert read_outcomes(path) == [ROW]
    with OutcomesFile(path) as file:
        assert file.rows == [ROW]
        file.append(OTHER)
    assert read_outcomes(path) == [ROW, OTHER]


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"arm": 1}'])
def test_foreign_line(tmp_path: Path, line: str) -> None:
    """A whole line that is no outcome is told by its number; the file is left as it is."""
    path = tmp_path / "outcomes.jsonl"
    with OutcomesFile(path) as file:
        file.append(ROW)
    before = path.read_text() + line + "\n"
    path.write_text(before)
    with pytest.raises(OutcomesFileError, match=r"jsonl:2: no outcome"):
        read_outcomes(path)
    with pytest.raises(OutcomesFileError, match=r"jsonl:2: no outcome"):
        OutcomesFile(path)
    assert path.read_text() == before


def test_one_writer(tmp_path: Path) -> None:
    """Two collections never write one file."""
    path = tmp_path / "outcomes.jsonl"
    with OutcomesFile(path), pytest.raises(OutcomesFileError, match="another collection"):
        OutcomesFile(path)
    with OutcomesFile(path):
        pass


def test_unusable_paths(tmp_path: Path) -> None:
    """A directory, a gzipped file and a missing file are told with the path."""
    with pytest.raises(OutcomesFileError, match="cannot be written"):
        OutcomesFile(tmp_path)
    with pytest.raises(OutcomesFileError, match="gzip it afterwards"):
        OutcomesFile(tmp_path / "a.jsonl.gz")
    with pytest.raises(OutcomesFileError, match="cannot be read"):
        read_outcomes(tmp_path / "none.jsonl")
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(OutcomesFileError, match="cannot be read"):
        read_outcomes(tmp_path / "bad.gz")
