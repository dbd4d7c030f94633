"""The outcome table: rows in any order, arms by cost, and what is missing stays missing."""

from __future__ import annotations

import numpy as np
import pytest

from router.outcome_table import table_of, table_of_routellm, view_of
from router.outcomes import OutcomeRow


def row(prompt_id: str, arm: str, *, success: bool, cost: float = 1.0) -> OutcomeRow:
    return OutcomeRow(
        prompt_id=prompt_id,
        domain=prompt_id[0],
        level=0,
        prompt=f"prompt {prompt_id}",
        arm=arm,
        model="m",
        success=success,
        answer="",
        num_input_tokens=3,
        num_output_tokens=7,
        cost=cost,
        created_at=0.0,
    )


ROWS = [
    row("a1", "strong", success=True, cost=4.0),
    row("a1", "weak", success=False),
    row("b1", "weak", success=True),
]


def test_lines_and_columns() -> None:
    """One line a prompt, one column an arm, the cheapest first; what no row tells is not a number."""
    table = table_of(ROWS)
    assert table.arms == ("weak", "strong")
    assert (table.prompts, table.domains) == (("prompt a1", "prompt b1"), ("a", "b"))
    assert table.successes.tolist()[0] == [0.0, 1.0]
    assert table.successes[1, 0] == 1.0
    assert np.isnan(table.successes[1, 1])
    assert table.num_output_tokens[0].tolist() == [7.0, 7.0]


def test_order_of_rows_does_not_matter_to_a_prompt() -> None:
    """Each prompt's line holds its own outcomes, however the file was written."""
    backwards = table_of(ROWS[::-1])
    place = backwards.prompts.index("prompt a1")
    assert backwards.successes[place].tolist() == [0.0, 1.0]


def test_chosen_arms_only() -> None:
    """Rows of an arm that is not asked for are left out."""
    assert table_of(ROWS, ["weak"]).successes.tolist() == [[0.0], [1.0]]


def test_select() -> None:
    """A part is the same table with fewer lines."""
    part = table_of(ROWS).select(np.array([1]))
    assert (len(part), part.prompts, part.arms) == (1, ("prompt b1",), ("weak", "strong"))


def test_routellm() -> None:
    """The weak model is the fast arm, the strong one the full arm, and words stand for tokens where they are."""
    table = table_of_routellm(
        [
            {"prompt": "p", "subject": "s", "weak_correct": False, "strong_correct": True, "weak_words": 5},
            {"prompt": "q", "subject": "t", "weak_correct": True, "strong_correct": True},
        ]
    )
    assert table.arms == ("fast", "full")
    assert table.successes.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    assert table.num_output_tokens[0, 0] == 5
    assert np.isnan(table.num_output_tokens[1, 1])


def test_routellm_without_a_member() -> None:
    """A record without an outcome is refused with the member's name."""
    with pytest.raises(ValueError, match="weak_correct"):
        table_of_routellm([{"prompt": "p", "subject": "s"}])


def test_view() -> None:
    """Later turns count as turns and as text."""
    view = view_of("hard one", "go on")
    assert (view.num_turns, view.num_chars) == (2, 13)
