"""Final answers are read strictly or not at all."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.verifiers import answers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", "42"),
        ("Let me see.\n6 × 7 is\n\nAnswer: 42\n", "42"),
        ("**Answer:** 42", "42"),
        ("**Answer: 42", "**Answer: 42"),
        ("**Answer: 42**", "42"),
        ("The answer is 42.", "42"),
        ("Final answer: $\\boxed{42}$.", "42"),
        ("`x = 4`", "x = 4"),
        ("Answer: 3\nAnswer: 4", "4"),
        ("Answer:", ""),
        ("", ""),
        (" \n\t\n", ""),
        ("x" * (answers.MAX_ANSWER_CHARS + 1), ""),
        ("2...", "2..."),
    ],
)
def test_the_last_line_is_the_answer(text: str, expected: str) -> None:
    """The final answer is the last line without label, markdown and full stop."""
    assert answers.final_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-7", -7),
        ("−7", -7),
        ("+7", 7),
        ("1,234,567", 1234567),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1/3", Fraction(1, 3)),
        ("-2 / 6", Fraction(-1, 3)),
        ("1.5e3", 1500),
        ("0", 0),
    ],
)
def test_numbers_are_exact(text: str, expected: Fraction | int) -> None:
    """What is written as a number is that number, without rounding."""
    assert answers.number(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "seven", "7 apples", "7 or 8", "1,23", "12,34", "1/0", "1e999999999", "nan", "inf", "0x10",
     "1_000", "9" * 401, "١", "7 8", "--7", "1/-2"],
)  # fmt: skip
def test_what_is_no_number_is_none(text: str) -> None:
    """Anything beside a number makes it none, and what would take for ever to expand is refused."""
    assert answers.number(text) is None


def test_a_tolerance_is_absolute_and_inclusive() -> None:
    """A number within the tolerance passes; the edge itself does, beyond it does not."""
    assert answers.is_number("3.14", Fraction(315, 100), tolerance=Fraction(1, 100))
    assert not answers.is_number("3.13", Fraction(315, 100), tolerance=Fraction(1, 100))
    assert not answers.is_number("", 0, tolerance=10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B)", "B"),
        ("B.", "B"),
        ("F", None),
        ("A or B", None),
        ("", None),
    ],
)
def test_one_letter_of_those_offered(text: str, expected: str | None) -> None:
    """A letter that was offered is read in its usual spellings; two letters are none."""
    assert answers.letter(text) == expected


def test_lists_keep_order_and_reject_gaps() -> None:
    """A list is its parts without brackets and quotes; an empty part makes it unreadable."""
    assert answers.items("[apple, 'pear', \"fig\"]") == ("apple", "pear", "fig")
    assert answers.items("apple") == ("apple",)
    assert answers.items("apple,,fig") is None
    assert answers.items("[]") is None
    assert answers.items("") is None
    assert answers.numbers("3, 1/2, -4") == (3, Fraction(1, 2), -4)
    assert answers.numbers("3, x") is None
    assert answers.numbers("") is None


def test_words_and_choices_are_whole() -> None:
    """A word is one word, and a choice is the whole of the text."""
    assert answers.word("Well-Known") == "well-known"
    assert answers.word("two words") is None
    assert answers.word("") is None
    assert answers.choice("  not  enough ", ("enough", "not enough")) == "not enough"
    assert answers.choice("enough or not enough", ("enough", "not enough")) is None
    assert answers.choice("", ("",)) is None
    assert answers.same("a  b", "a b")
    assert not answers.same("a b c", "a b")
    assert not answers.same("", "")


def test_json_is_read_from_the_last_block_and_from_nothing_beside_it() -> None:
    """A fenced block, a labelled end, or the whole text; repeated members, NaN and deep nests are refused."""
    assert answers.json_value('So:\n```json\n{"a": [1, 2]}\n```\nDone.') == {"a": [1, 2]}
    assert answers.json_value('I think.\nAnswer: {"a": 1}') == {"a": 1}
    assert answers.json_value('{"a": 1} and {"a": 2}') is None
    assert answers.json_value('{"a": 1, "a": 2}') is None
    assert answers.json_value("[NaN]") is None
    assert answers.json_value("[" * 100_000) is None
    assert answers.json_value("[" * 41 + "]" * 41) is None
    assert answers.json_value("") is None
    assert answers.json_value("9" * 500) is None


def test_a_block_keeps_its_lines() -> None:
    """An answer of several lines is the last fence, or what follows the label, or everything."""
    assert answers.final_block("x\n```\n1 2\n3 4\n```") == "1 2\n3 4"
    assert answers.final_block("thinking\nAnswer:\n1 2\n3 4\n") == "1 2\n3 4"
    assert answers.final_block("1 2\n3 4") == "1 2\n3 4"
    assert answers.final_block("") == ""


@given(st.text(max_size=200), st.integers(-(10**6), 10**6))
def test_a_right_answer_inside_other_text_is_not_one(around: str, value: int) -> None:
    """Substring never suffices: a number with anything else on its line is read as another number or as none."""
    line = f"{around.splitlines()[0] if around.splitlines() else ''}z {value} z"
    assert answers.number(answers.final_answer(line)) is None


@given(st.text(max_size=300))
def test_no_text_breaks_a_reader(text: str) -> None:
    """Every reader gives a value or None for any text."""
    line = answers.final_answer(text)
    for reader in (
        answers.number,
        answers.word,
        answers.letter,
        answers.items,
        answers.numbers,
        answers.json_value,
    ):
        reader(line)
    answers.final_block(text)
