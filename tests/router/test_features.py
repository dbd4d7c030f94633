"""Structural features: what they see, what they do not let themselves be fooled by, and that reading is
bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.features import MAX_READ_CHARS, asks_for_length, bounded, structure
from router.request import RequestView

HARD = (
    "Prove that 3x + 4 = 10 has one solution, then compute x for each of 5, 7 and 9. Must it be an integer?"
)


def view(*turns: str, **more: Any) -> RequestView:
    given: dict[str, Any] = {"num_chars": sum(map(len, turns)), **more}
    return RequestView(endpoint="chat", model="auto", turns=turns, **given)


def test_greeting_has_no_features() -> None:
    """Nothing about "hi" is hard."""
    assert set(structure(view("hi")).values()) == {0.0}


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("word " * 50, "length"),
        ("prove it", "reasoning"),
        ("explain it", "explaining"),
        ("it must fit exactly", "constraints"),
        ("first this, then that", "steps"),
        ("- this\n- that", "steps"),
        ("between 3 and 7,000.5", "numbers"),
        ("a = b, c = d", "maths"),
        (r"\frac{a}{b} \le c", "maths"),
        ("```\nx\n```", "code"),
        ("def f():\n    return f()", "code"),
        ("|a|b|\n|1|2|", "tables"),
        ("what? and how?", "questions"),
        ("猫はどこですか", "other_script"),
    ],
)
def test_each_text_feature_fires(text: str, feature: str) -> None:
    """Each feature of the text is seen where it stands."""
    assert structure(view(text))[feature] > 0


def test_features_beside_the_text() -> None:
    """Tools, a schema and earlier turns count."""
    features = structure(view("hi", "ho", num_tools=3, needs_schema=True))
    assert (features["tools"], features["schema"], features["turns"]) == (2.0, 1.0, 1.0)


@given(st.text(max_size=300), st.integers(0, 9))
def test_features_are_finite_and_not_negative(text: str, num_tools: int) -> None:
    """Any text gives the same names in the same order, with numbers from 0 up."""
    features = structure(view(text, num_tools=num_tools))
    assert list(features) == list(structure(view("hi")))
    assert all(0 <= value < 64 for value in features.values())


@pytest.mark.parametrize("disguise", [str.upper, str.title, lambda text: text.replace(" ", "   ")])
def test_case_and_white_space_change_nothing(disguise: Callable[[str], str]) -> None:
    """The same words in other letters or wider apart are the same task."""
    disguised = view(disguise(HARD), num_chars=len(HARD))
    assert structure(disguised) == structure(view(HARD))


@pytest.mark.parametrize("last", ["continue", "ok", "yes please", "go on."])
def test_a_word_behind_the_task_hides_nothing(last: str) -> None:
    """What an earlier turn asked for is still there when the last one says "continue"."""
    alone, followed = structure(view(HARD)), structure(view(HARD, last))
    assert all(followed[name] >= value for name, value in alone.items())


def test_both_ends_of_a_long_text_are_read() -> None:
    """Of a long text the middle is skipped and neither end is."""
    filler = "lorem " * MAX_READ_CHARS
    text = bounded((f"START {filler} MIDDLE {filler} END",))
    assert len(text) == MAX_READ_CHARS + 1
    assert text.startswith("start")
    assert text.endswith("end")
    assert "middle" not in text


@pytest.mark.parametrize(
    "unit", ["\n", " ", "\t", "1 ", "|", "; ", "a)\n", "\\a", "- ", "1+", "`", "x()", "?", "ß"]
)
def test_no_text_is_slow(unit: str) -> None:
    """A long run of anything that a pattern looks for takes bounded time: no pattern backtracks over it."""
    hostile = view(unit * (100_000 // len(unit)))
    start = time.perf_counter()
    structure(hostile)
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Is it? Yes or no.", -1.0),
        ("In ONE word: which?", -1.0),
        ("Which is it?", 0.0),
        ("Write an essay.", 1.0),
    ],
)
def test_asked_length(text: str, expected: float) -> None:
    """The last turn says how long the answer should be."""
    assert asks_for_length(view("Write a story.", text)) == expected
