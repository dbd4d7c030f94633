"""Tests of router.prompts_checks: what counts as saying the right thing."""

from __future__ import annotations

import pytest

from router.prompts_checks import Check, JsonObject, Number, States, Words

YES = States("yes", ("yes", "no"))
MARS = States("Mars", ("Mars", "Venus"))
SMALL = States(("small", "not big"), ("small", "big"))
AB = JsonObject({"a": 1, "b": "X"})


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (YES, "Yes."),
        (YES, "**YES**, there is no doubt"),
        (MARS, "It is “mars”."),
        (MARS, "Mars, not Venus"),
        (SMALL, "It is not big"),
        (Number(9), "9"),
        (Number(9), "4 + 5 = 9. And 5 + 5 = 10."),
        (Number(1234), "It is 1,234."),
        (Number(-3), "−3"),
        (Number(2.5), "2.5 metres"),
        (Words("apple, pear"), "Apple, pear."),
        (Words("apple, pear"), "Sorted: apple, pear\nI hope this helps."),
        (Words("apple, pear"), "Sure, here they are:\n\n  apple pear"),
        (AB, 'Here: ```json\n{"b": "x", "a": 1, "c": [2]}\n```'),
        (AB, '{oh} {"a": 1, "b": "x"}'),
    ],
)
def test_right(check: Check, answer: str) -> None:
    """A right answer passes in any of the forms that models give it."""
    assert check(answer)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (YES, "No, yes"),
        (YES, "yesterday"),
        (MARS, "Venus or Mars"),
        (SMALL, "big"),
        (Number(9), "19"),
        (Number(9), "9.5"),
        (Number(9), "a9"),
        (Number(9), "8. No, 9."),
        (Number(9), "nine"),
        (Words("apple, pear"), "pear, apple"),
        (Words("apple, pear"), "apple, pear, plum"),
        (Words("apple, pear"), "I think\napple, pear"),
        (AB, '{"a": 1}'),
        (AB, '{"a": 2, "b": "x"} {"a": 1, "b": "x"}'),
        (AB, '{"a": [1], "b": {}}'),
        (AB, '{"a": 1, "b": "x"'),
        (AB, "[" * 5000),
        (AB, '{"a":' * 5000),
    ],
)
def test_wrong(check: Check, answer: str) -> None:
    """What says something else, or the right thing only after something else, does not pass."""
    assert not check(answer)


@pytest.mark.parametrize("check", [YES, MARS, SMALL, Number(0), Words("a"), AB, JsonObject({})])
@pytest.mark.parametrize("answer", ["", " \n", "…"])
def test_empty(check: Check, answer: str) -> None:
    """Nothing is never right."""
    assert not check(answer)
