"""Held-out scores: what counts how often, and that neither a prompt nor a copy is scored by who has seen it."""

from __future__ import annotations

import numpy as np
import pytest

from router.fit_config import FitConfig
from router.fit_scores import held_out_scores, mixed_with_domain
from router.outcome_table import OutcomeTable
from router.prepared import Prepared, prepare

CONFIG = FitConfig(num_folds=2, num_copies=2, max_steps=20)
DEAL = np.arange(40) % 2


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    table = OutcomeTable(
        prompts=tuple(
            f"the {'red' if place % 3 else 'blue'} thing {chr(97 + place % 26)}" for place in range(40)
        ),
        domains=("one",) * 40,
        arms=("fast", "full"),
        successes=np.stack(((np.arange(40) % 3 > 0), (np.arange(40) % 5 > 0)), axis=1).astype(float),
        num_output_tokens=np.ones((40, 2)),
        costs=np.ones((40, 2)),
    )
    return prepare(table).copied(CONFIG)


def test_a_prompt_counts_once(prepared: Prepared) -> None:
    """Its lines, its own and those of its copies, count once together; its own is there once."""
    lines = held_out_scores(prepared, DEAL, CONFIG, lambda: None)
    assert np.bincount(lines.places, weights=lines.counts) == pytest.approx(np.ones(40))
    assert np.bincount(lines.places[~lines.is_copy]).tolist() == [1] * 40
    assert len(lines.places) == 40 * 3


def test_nothing_of_a_fold_is_seen(prepared: Prepared) -> None:
    """Other outcomes in a fold change the scores of the other fold, and none of its own, copies included."""
    table = prepared.table
    changed = table.successes.copy()
    changed[DEAL == 0] = 1 - changed[DEAL == 0]
    other = Prepared(
        OutcomeTable(
            prompts=table.prompts,
            domains=table.domains,
            arms=table.arms,
            successes=changed,
            num_output_tokens=table.num_output_tokens,
            costs=table.costs,
        ),
        prepared.encoded,
        prepared.groups,
        None,
        prepared.copies,
    )
    before, after = (held_out_scores(each, DEAL, CONFIG, lambda: None) for each in (prepared, other))
    is_same = np.all(before.scores == after.scores, axis=1)
    assert np.all(is_same[DEAL[before.places] == 0])
    assert not np.any(is_same[DEAL[before.places] == 1])


def test_mixing_by_hand() -> None:
    """Half of a domain's mean: (1 + 5·0.5) / (1 + 5) for the lone success, (1 + 5·0.5) / (3 + 5) for one of three."""
    mixed = mixed_with_domain(np.array([1.0, 1.0, 0.0, 0.0]), np.array(["a", "b", "b", "b"]), share=0.5)
    assert mixed.tolist() == pytest.approx([0.5 + 3.5 / 12, 0.5 + 3.5 / 16, 3.5 / 16, 3.5 / 16])
