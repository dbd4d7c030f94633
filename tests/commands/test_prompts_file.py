"""Tests of serving.commands.prompts_file: what is read, and which line is at fault."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from serving.commands.prompts_file import PromptsFileError, read_prompts

RECORD = {"domain": "mine", "level": 0, "prompt": "How many legs has a horse?", "answer": "4"}
LINE = json.dumps(RECORD)


def test_plain_and_packed_are_the_same(tmp_path: Path) -> None:
    """Blank lines and repetitions do not matter, nor an end without a line break."""
    plain, packed = tmp_path / "p.jsonl", tmp_path / "p.jsonl.gz"
    plain.write_text(f"{LINE}\n\n{LINE}\n{LINE.replace('horse', 'bird').replace('4', '2')}")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [item.reference for item in read_prompts(plain)] == ["4", "2"]
    assert read_prompts(packed) == read_prompts(plain)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{LINE}\n{{", "p.jsonl:2: no prompt: "),
        ("[]", "p.jsonl:1: no prompt: not an object"),
        (f"\n{LINE.replace('answer', 'reply')}\n", "p.jsonl:2: no prompt: no 'answer'"),
        (f"{LINE}\n{LINE.replace('4', '5')}", "p.jsonl:2: line 1 has the same prompt with another answer"),
        ("\n", "p.jsonl: no prompts in it"),
    ],
)
def test_faults_name_their_line(text: str, told: str, tmp_path: Path) -> None:
    """Nothing of a file with a fault is used."""
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(PromptsFileError) as error:
        read_prompts(path)
    assert told in str(error.value)


def test_unreadable(tmp_path: Path) -> None:
    """A file that is not there, or is not what its name says, is told by its path."""
    (tmp_path / "p.jsonl.gz").write_text(LINE)
    for name in ("none.jsonl", "p.jsonl.gz"):
        with pytest.raises(PromptsFileError, match=f"{name}: cannot be read"):
            read_prompts(tmp_path / name)
