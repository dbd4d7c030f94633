"""Tests of router.prompts_recorded: what a record must be, what passes, and the shipped records."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import router
from router.prompts import Item
from router.prompts_recorded import item_of, mixed

SHIPPED = Path(router.__file__).parent / "data" / "reasoning_gym_prompts.jsonl.gz"
RECORD = {"domain": "gcd", "level": 0, "prompt": "What is the GCD of 12 and 18?", "answer": "6"}


def shipped() -> list[Item]:
    return [item_of(json.loads(line)) for line in gzip.decompress(SHIPPED.read_bytes()).splitlines()]


def item(answer: str, prompt: str = "Here is a question for you.") -> Item:
    return item_of({**RECORD, "prompt": prompt, "answer": answer})


@pytest.mark.parametrize(
    ("known", "right", "wrong"),
    [
        ("6", ["6", "It is 6.", "6.0", "12 and 18 share 6"], ["", "16", "6 or 7", "-6", "six"]),
        ("-1,234.5", ["-1234.5", "−1,234.5"], ["1234.5", "-1234"]),
        ("007", ["007", "Agent: 007"], ["7"]),
        ("12345678901234567", ["12345678901234567"], ["12345678901234568"]),
        ("Kellen", ["kellen", "Answer: Kellen.", '"Kellen"'], ["", "Kellen or Asif", "I like Kellen"]),
        ("father-in-law", ["Father-in-law."], ["father", "in law"]),
    ],
)
def test_numbers_by_value_and_words_by_the_line(known: str, right: list[str], wrong: list[str]) -> None:
    """A number passes however it is written, up to what a float holds; anything else only as a line of its own."""
    asked = item(known)
    assert [answer for answer in right if not asked.passes(answer)] == []
    assert [answer for answer in wrong if asked.passes(answer)] == []


def test_repeated_question_does_not_count() -> None:
    """The prompt has the number that is the answer; only an answer that adds it passes."""
    asked = item("18", "Which is larger, 12 or 18?")
    assert not asked.passes("Which is larger, 12 or 18?")
    assert asked.passes("Which is larger, 12 or 18? 18")


def test_id_follows_from_the_prompt() -> None:
    """Outcomes are named by it: the same prompt has the same id wherever it is recorded, another has another."""
    assert item_of(RECORD).prompt_id == "recorded/3242d076bb17"
    assert item_of({**RECORD, "domain": "x", "level": 2}).prompt_id == item_of(RECORD).prompt_id
    assert item_of({**RECORD, "prompt": "And of 12 and 19?"}).prompt_id != item_of(RECORD).prompt_id


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"answer": 6}, "'answer' is 6, which is no text"),
        ({"domain": " "}, "'domain' is ' ', which is no text"),
        ({"level": True}, "'level' is True"),
        ({"level": -1}, "'level' is -1"),
        ({"anwser": "6"}, "unknown members: anwser"),
        ({"answer": "1/2"}, "neither a number nor words"),
        ({"answer": "-5 degrees"}, "neither a number nor words"),
        ({"answer": "..."}, "neither a number nor words"),
        ({"answer": "red\nblue"}, "several lines"),
        ({"prompt": "Say:\nred blue green", "answer": "red blue green"}, "line or sentence of the prompt"),
        ({"prompt": "Say 6"}, "the prompt repeated would pass"),
    ],
)
def test_what_cannot_be_checked_is_refused(changes: dict[str, Any], told: str) -> None:
    """A record that would judge answers wrongly is no item."""
    with pytest.raises(ValueError, match=told):
        item_of({**RECORD, **changes})


@pytest.mark.parametrize("name", RECORD)
def test_every_member_is_needed(name: str) -> None:
    """The message names the one that is missing."""
    with pytest.raises(ValueError, match=f"no '{name}'"):
        item_of({member: value for member, value in RECORD.items() if member != name})


def test_shipped_records_pass_by_their_answer_alone() -> None:
    """All are items; silence, the prompt and its longer lines do not pass, nor one constant above three in four."""
    items = shipped()
    assert len({one.prompt_id for one in items}) == len(items) == 600
    assert set(Counter((one.domain, one.level) for one in items).values()) == {8}
    assert len({one.domain for one in items}) == 25
    for one in items:
        lines = [line for line in one.prompt.splitlines() if len(line.split()) >= 3]
        for answer in ("", one.prompt, one.prompt.upper(), "I do not know.", *lines):
            assert not one.passes(answer), (one, answer)
    for group in {(one.domain, one.level) for one in items}:
        asked = [one for one in items if (one.domain, one.level) == group]
        assert max(sum(one.passes(other.reference) for one in asked) for other in asked) <= 6, group


def test_a_part_is_as_mixed_as_the_whole() -> None:
    """The first 75 have each domain and level once, and begin every larger choice; more than there are is all."""
    items = shipped()
    part = mixed(items, 75)
    assert set(Counter((one.domain, one.level) for one in part).values()) == {1}
    assert mixed(items, 200)[:75] == part
    assert len(mixed(items, 10_000)) == 600
