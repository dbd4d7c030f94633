"""Prompts of a frontier are not, and are not like, what the router was fitted on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests.frontier_prompts import RELEASED_OUTCOMES, PromptsError, held_out, own, read_outcomes, recorded
from router.artifact import from_bytes
from router.duplicates import duplicate_groups
from router.encoding import encode
from router.outcome_table import view_of


def test_the_released_outcomes() -> None:
    """They have the hash that the released router says it was fitted on, so that its run is not refused."""
    outcomes = read_outcomes(RELEASED_OUTCOMES)
    _, header = from_bytes((RELEASED_OUTCOMES.parent / "router.npz").read_bytes())
    assert outcomes.data_sha256 == header.data_sha256
    assert header.num_prompts - 5 < len(outcomes.prompts) <= header.num_prompts


def test_none_is_like_a_fitted_one() -> None:
    """Another seed makes the same and similar prompts again: they are left out, and as many as asked for are found."""
    fitted = [item.prompt for item in own(0)(200)]
    found = held_out(own(1), 150, fitted)
    assert len(found.items) == len(found.groups) == 150
    assert found.num_like_fitted > 0
    texts = [*fitted, *(item.prompt for item in found.items)]
    groups = duplicate_groups([encode(view_of(text)).words for text in texts])
    assert not set(groups[:200].tolist()) & set(groups[200:].tolist())
    assert len({item.prompt for item in found.items}) == 150


def test_a_part_keeps_groups_beside_their_items() -> None:
    found = held_out(own(1), 20, [])
    part = found.part([7, 3])
    assert part.items == (found.items[7], found.items[3])
    assert part.groups.tolist() == [found.groups[7], found.groups[3]]


def test_records_of_ones_own(tmp_path: Path) -> None:
    """A file's prompts, fewer than asked for where there are no more, without one that was fitted on."""
    path = tmp_path / "prompts.jsonl"
    prompts = ["How many legs has a spider in all?", "Name the capital city of the country of Peru."]
    lines = [
        {"domain": "d", "level": 0, "prompt": prompt, "answer": answer}
        for prompt, answer in zip(prompts, ("8", "Lima"), strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [item.reference for item in held_out(recorded(path), 9, []).items] == ["8", "Lima"]
    assert [item.reference for item in held_out(recorded(path), 9, prompts[:1]).items] == ["Lima"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not JSON lines"), ('{"domain": "d"}\n', "no 'level'"), (None, "cannot be read")],
)
def test_files_that_are_none(tmp_path: Path, text: str | None, said: str) -> None:
    """What is wrong with a file is said with its name."""
    path = tmp_path / "prompts.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PromptsError, match=rf"prompts\.jsonl.*{said}"):
        recorded(path)


def test_outcomes_without_prompts(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"strong": true}\n')
    with pytest.raises(PromptsError, match="no `prompt`"):
        read_outcomes(path)
