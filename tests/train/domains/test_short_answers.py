"""Tests of train.domains.short_answers: the shipped records, made again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from train.domains import catalog
from train.domains.audit import audited
from train.domains.short_answers import LEVELS, NAMES, NoShortAnswersError, records
from train.transcript import answered

SHIPPED = Path(__file__).parents[3] / "router" / "data" / "reasoning_gym_prompts.jsonl.gz"


def test_shipped_records_are_what_the_domains_make() -> None:
    """Of seed 0, for a third of the domains; the rest are named in the same order."""
    shipped = [json.loads(line) for line in gzip.decompress(SHIPPED.read_bytes()).splitlines()]
    assert tuple(dict.fromkeys(record["domain"] for record in shipped)) == NAMES
    names = NAMES[::3]
    made = list(records(audited(names), count=8, seed=0))
    assert made == [record for record in shipped if record["domain"] in names]


def test_every_name_may_train() -> None:
    """None is of a domain whose audit failed."""
    assert len(audited(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", ["gcd", "spell_backward"])
def test_the_answer_of_a_record_is_right(name: str) -> None:
    """The domain's own verifier passes it, on as many different prompts as were asked for."""
    domain = catalog.get(name)
    made = list(records([domain], count=5, seed=9))
    assert len({record["prompt"] for record in made}) == 5 * len(LEVELS)
    items = {item.prompt: item for level in LEVELS for item in (domain.item(9, i, level) for i in range(20))}
    for record in made:
        assert domain.verify(items[str(record["prompt"])], answered(str(record["answer"]))).passed


def test_what_has_no_short_answers_is_refused() -> None:
    """A domain that runs out of prompts, answers at length, or lacks a level is named with it."""
    with pytest.raises(NoShortAnswersError, match=r"count_bits has [0-9]+ different prompts .* at level 0"):
        list(records([catalog.get("count_bits")], count=100, seed=0))
    with pytest.raises(NoShortAnswersError, match="sudoku has 0 different"):
        list(records([catalog.get("sudoku")], count=1, seed=0))
    with pytest.raises(NoShortAnswersError, match="gcd has levels 0 to 2"):
        list(records([catalog.get("gcd")], count=1, seed=0, levels=[7]))
