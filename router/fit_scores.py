"""The linear scores of the difficulty model: a regression for each arm, and what it says of prompts it had not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.encoding import fit_columns
from router.fit_config import FitConfig
from router.fitted import Scorer
from router.logistic import fit_logistic, stack_rows
from router.prepared import Prepared

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

DOMAIN_PRIOR: Final = 5.0
"""Outcomes at the arm's mean that each domain's mean is given beforehand."""


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """What regressions say of prompts, and of copies of them, that they had not seen."""

    scores: Floats
    """(lines, arms)."""
    dense: NDArray[np.float32]
    """(lines, what trees see)."""
    places: Places
    """The prompt that a line is of."""
    counts: Floats
    """How often a line counts: those of a prompt count once together."""
    is_copy: NDArray[np.bool_]


def fit_scorer(prepared: Prepared, config: FitConfig) -> Scorer:
    """The regressions on these prompts and their copies. Columns are those of the prompts alone."""
    columns = fit_columns(prepared.encoded)
    table, copies = prepared.table, prepared.copies or ((),) * len(prepared.encoded)
    rows = [columns.row(encoded) for encoded in prepared.encoded]
    rows_of_copies = [[columns.row(encoded) for encoded in each] for each in copies]
    weights = np.zeros((columns.num, len(table.arms)), dtype=np.float32)
    intercepts = np.zeros(len(table.arms), dtype=np.float32)
    for arm in range(len(table.arms)):
        tried = np.flatnonzero(~np.isnan(table.successes[:, arm]))
        nums = np.array([1 + len(rows_of_copies[place]) for place in tried])
        stacked = stack_rows([row for place in tried for row in (rows[place], *rows_of_copies[place])])
        targets = mixed_with_domain(
            table.successes[tried, arm], np.array(table.domains)[tried], share=config.domain_share
        )
        found, intercept = fit_logistic(
            stacked,
            np.repeat(targets, nums),
            counts=np.repeat(1 / nums, nums),
            penalty=config.penalty,
            max_steps=config.max_steps,
        )
        weights[stacked.names, arm], intercepts[arm] = found, intercept
    return Scorer(columns, weights, intercepts)


def held_out_scores(
    prepared: Prepared,
    fold_of: Places,
    config: FitConfig,
    on_step: Callable[[], None],
) -> HeldOutScores:
    """Each prompt and its copies by regressions without the prompt's fold."""
    copies = prepared.copies or ((),) * len(prepared.encoded)
    scores, dense, places, counts, is_copy = [], [], [], [], []
    for fold in range(config.num_folds):
        scorer = fit_scorer(prepared.select(np.flatnonzero(fold_of != fold)), config)
        for place in np.flatnonzero(fold_of == fold):
            lines = (prepared.encoded[place], *copies[place])
            for number, encoded in enumerate(lines):
                scores.append(scorer.scores(encoded))
                dense.append(scorer.dense(encoded, scores[-1]))
                places.append(place)
                counts.append(1 / len(lines))
                is_copy.append(number > 0)
        on_step()
    return HeldOutScores(
        np.stack(scores).astype(np.float64),
        np.stack(dense),
        np.array(places),
        np.array(counts),
        np.array(is_copy),
    )


def mixed_with_domain(successes: Floats, domains: NDArray[np.str_], *, share: float) -> Floats:
    """(1 − share) · outcome + share · mean of its domain, which `DOMAIN_PRIOR` draws towards the mean of all.

    With one domain that would only be another penalty, so the outcomes are left as they are.
    """
    names, places = np.unique(domains, return_inverse=True)
    if len(names) == 1:
        return successes
    sums, sizes = np.bincount(places, weights=successes), np.bincount(places)
    means = (sums + DOMAIN_PRIOR * successes.mean()) / (sizes + DOMAIN_PRIOR)
    mixed: Floats = (1 - share) * successes + share * means[places]
    return mixed
