"""Tests of router.prompts and its domains: the laws that every generated prompt obeys."""

from __future__ import annotations

from collections import Counter

import pytest

from router.prompts import DOMAINS, LEVELS, Item, make, prompt_set, without_question

NUM_ITEMS = 12
TWO_WAY = {"parity", "membership", "sentiment", "claims"}
"""Domains with two possible answers, of which one constant hits half."""

PINNED = (
    "Question: What is the capital of Germany?\nAnswer: Berlin\n\n"
    "Question: What is the capital of France?\nAnswer: Paris\n\n"
    "Question: Name the capital city of Egypt.\nAnswer:",
    "Cairo",
)


def items(domain: str, number: int = NUM_ITEMS) -> list[Item]:
    return [make(domain, seed=5, index=index, level=level) for level in LEVELS for index in range(number)]


@pytest.mark.parametrize("domain", DOMAINS)
def test_reference_passes_and_nothing_cheap_does(domain: str) -> None:
    """The reference passes; no answer at all, the prompt, its lines but the last, and its first half do not."""
    for item in items(domain):
        assert item.passes(item.reference), item
        assert item.passes(f"{item.prompt}\n{item.reference}"), item
        for answer in ("", "\n", "…", item.prompt, item.prompt.upper(), "I do not know."):
            assert not item.passes(answer), (item, answer)


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_constant_answer_passes_often(domain: str) -> None:
    """The best constant answer passes no more than chance, with room for the luck of 60 draws."""
    drawn = items(domain, 20)
    for level in LEVELS:
        asked = [item for item in drawn if item.level == level]
        constants = {item.reference for item in asked}
        best = max(sum(item.passes(constant) for item in asked) for constant in constants)
        assert best / len(asked) <= (0.8 if domain in TWO_WAY else 0.65), (domain, level)


@pytest.mark.parametrize("domain", sorted(TWO_WAY))
def test_two_way_answers_are_balanced(domain: str) -> None:
    """Neither of two answers is right much more often than the other."""
    counts = Counter(make(domain, seed=1, index=index, level=index % 3).reference for index in range(300))
    assert len(counts) == 2
    assert min(counts.values()) >= 120


def test_same_arguments_same_item() -> None:
    """An item is a function of its arguments; every argument matters."""
    first = make("sums", seed=1, index=2, level=1)
    assert first == make("sums", seed=1, index=2, level=1)
    others = [make("sums", seed=2, index=2, level=1), make("sums", seed=1, index=3, level=1)]
    assert len({item.prompt_id for item in (first, *others)}) == 3
    assert all(item.prompt != first.prompt for item in others)


def test_pinned_items() -> None:
    """Prompts of this version do not change: outcomes collected on them name them by id."""
    item = make("capitals", seed=0, index=0, level=0)
    assert item.prompt_id == "prompts-1/capitals/0/0-0"
    assert (item.prompt, item.reference) == PINNED


def test_set_is_mixed_and_grows_at_its_end() -> None:
    """A set has every domain and level equally often, no prompt twice, and begins with every smaller set."""
    small, large = prompt_set(2 * len(DOMAINS) * len(LEVELS), seed=3), prompt_set(300, seed=3)
    assert large[: len(small)] == small
    assert set(Counter((item.domain, item.level) for item in small).values()) == {2}
    assert len({item.prompt for item in large}) == len({item.prompt_id for item in large}) == 300


def test_small_tables_are_exhausted() -> None:
    """Where there are no more different prompts the set ends."""
    months = prompt_set(5000, seed=0, domains=["parity"], levels=[0])
    assert 9 <= len(months) < 5000
    assert len({item.prompt for item in months}) == len(months)


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        ("What is 1 + 9? 10", "10"),
        ("what  is\n1 + 9?\n10", "10"),
        ("Somewhat is 1 + 9? 10", "Somewhat is 1 + 9? 10"),
        ("Just say it. 10", "10"),
    ],
)
def test_without_question(answer: str, rest: str) -> None:
    """What repeats whole sentences of the prompt goes, in any case and spacing; the rest stays."""
    assert without_question(answer, "What is 1 + 9? Just say it.").split() == rest.split()
