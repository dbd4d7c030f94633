"""When two answers say the same."""

from __future__ import annotations

import pytest

from serving.gateway.shadow_agreement import MAX_REFERENCE_CHARS, agrees

LONG = "Step by step it becomes clear. " * 20


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("Paris", "paris."),
        ("  The Seine\n", "the seine"),
        ("**Paris**", "Paris"),
        ("42", "The answer is 42."),
        ("It is 1,250.50 in all.", "1250.5"),
        ("$$\\boxed{42}$$", "42"),
        ("-3", "x = -3"),
        ("(b)", "B"),
        ("B) Paris", "b. The capital is Paris"),
        ("The answer is (C).", "C"),
        ("Yes, it is.", "yes"),
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        ("½", "1\N{FRACTION SLASH}2"),
        (LONG + "\nSo the answer is 42.", "42"),
    ],
)
def test_these_agree(answer: str, reference: str) -> None:
    """The same text, JSON, letter, number, or yes or no."""
    assert agrees(answer, reference) is True


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("Paris", "London"),
        ("42", "43"),
        ("3", "-3"),
        ("10-5", "10-4"),
        ("no", "yes"),
        ("B", "C"),
        ("b", "4"),
        ("a dog", "A"),
        ("", "42"),
        ('{"a": 1}', '{"a": 2}'),
        ("C#", "C"),
        ("42 is not it, and so on. " * 20 + "\nI do not know.", "42"),
    ],
)
def test_these_do_not(answer: str, reference: str) -> None:
    """Another number, another letter, another kind of answer."""
    assert agrees(answer, reference) is False


@pytest.mark.parametrize("answer", ["42", LONG, "x" * (MAX_REFERENCE_CHARS + 1)])
def test_a_long_reference_tells_nothing(answer: str) -> None:
    """Not even where the texts are equal: whether there is a grade must not hang on what it would be."""
    assert agrees(answer, LONG) is None


def test_the_weaker_arms_rambling_is_graded() -> None:
    """Only the reference's length decides, else an arm that rambles where it fails would never be graded."""
    assert agrees(LONG, "42") is False
