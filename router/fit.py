"""Fits the difficulty model: from a table of outcomes to calibrated probabilities for each arm. Offline, and pure.

1. Near-duplicates among the prompts are grouped, and the groups dealt to folds.
2. For each fold a penalised logistic regression a arm is fitted on the others, and scores the fold.
3. Those held-out scores, which their models had not seen, give each arm's isotonic map.
4. The weights are fitted once more, on everything.

Outcomes are noisy, and those of one domain tell of each other: before a regression each outcome is mixed with the mean
of its domain among the prompts that it is fitted on. What is calibrated and judged on is never mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.calibration import Isotonic, fit_isotonic
from router.duplicates import duplicate_groups, folds
from router.encoding import Columns, Encoded, encode, fit_columns
from router.fitted import FittedModel, TokenModel
from router.logistic import fit_logistic, stack_rows
from router.outcome_table import OutcomeTable

Floats = NDArray[np.float64]

LEAST_PROMPTS: Final = 200
"""With outcomes, of each arm."""
LEAST_OF_A_CLASS: Final = 20
"""Successes, and failures, of each arm."""
DOMAIN_PRIOR: Final = 5.0
"""Outcomes at the arm's mean that each domain's mean is given beforehand."""
TOKENS_PENALTY: Final = 1.0
SUPPORT_QUANTILE: Final = 0.01


class FitRefusedError(ValueError):
    """No honest model can be made of these outcomes; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """How to fit."""

    penalty: float = 1.0
    """On the squared weights: more is smoother."""
    domain_share: float = 0.5
    """The share of the domain's mean in what is regressed on, in [0, 1)."""
    num_folds: int = 5
    seed: int = 0
    """Of the deal of groups to folds."""
    max_steps: int = 80
    """Of the optimiser."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table, read: what every fit on it, or on a part of it, starts from."""

    table: OutcomeTable
    encoded: tuple[Encoded, ...]
    groups: NDArray[np.int64]
    """Near-duplicates have one number."""

    def select(self, places: NDArray[np.int64]) -> Prepared:
        """The part at these places."""
        encoded = tuple(self.encoded[place] for place in places)
        return Prepared(self.table.select(places), encoded, self.groups[places])


@dataclass(frozen=True, slots=True)
class _Scorer:
    """Linear scores of every arm: a model without its calibration."""

    columns: Columns
    weights: NDArray[np.float32]
    intercepts: NDArray[np.float32]

    def scores(self, encoded: Encoded) -> Floats:
        row = self.columns.row(encoded)
        return (row.values @ self.weights[row.columns] + self.intercepts).astype(np.float64)


def prepare(table: OutcomeTable) -> Prepared:
    """Read the prompts of `table` and group the near-duplicates among them."""
    encoded = tuple(encode(table.view(place)) for place in range(len(table)))
    return Prepared(table, encoded, duplicate_groups([each.words for each in encoded]))


def fit(
    prepared: Prepared, config: FitConfig, *, version: str, on_step: Callable[[], None] = lambda: None
) -> FittedModel:
    """The model of these outcomes.

    Args:
        prepared: by `prepare`.
        config: how.
        version: the name it is to go by in decisions.
        on_step: called after each of the `config.num_folds + 1` regressions.

    Raises:
        FitRefusedError: too few outcomes, or of one class only.
    """
    table = prepared.table
    _refuse_poor(table)
    fold_of = deal(prepared, config)
    scores = np.zeros((len(table), len(table.arms)))
    known_shares = np.zeros(len(table))
    for fold in range(config.num_folds):
        held_out = np.flatnonzero(fold_of == fold)
        scorer = _fit_scorer(prepared.select(np.flatnonzero(fold_of != fold)), config)
        for place in held_out:
            scores[place] = scorer.scores(prepared.encoded[place])
            known_shares[place] = scorer.columns.known_share(prepared.encoded[place])
        on_step()
    final = _fit_scorer(prepared, config)
    on_step()
    return FittedModel(
        version=version,
        arms=table.arms,
        columns=final.columns,
        weights=final.weights,
        intercepts=final.intercepts,
        calibrations=tuple(
            _calibration(scores[:, arm], table.successes[:, arm]) for arm in range(len(table.arms))
        ),
        tokens=tuple(_fit_tokens(prepared, final.columns, arm) for arm in range(len(table.arms))),
        least_known_share=float(np.quantile(known_shares, SUPPORT_QUANTILE)),
    )


def deal(prepared: Prepared, config: FitConfig) -> NDArray[np.int64]:
    """The fold of each prompt.

    Raises:
        FitRefusedError: fewer groups of near-duplicates than folds.
    """
    try:
        return folds(prepared.groups, config.num_folds, np.random.Generator(np.random.PCG64(config.seed)))
    except ValueError as error:
        raise FitRefusedError(str(error)) from None


def predict_held_out(
    prepared: Prepared, config: FitConfig, *, on_step: Callable[[], None] = lambda: None
) -> Floats:
    """Each prompt's probabilities, (prompts, arms), by a model that was fitted and calibrated without its fold.

    Raises:
        FitRefusedError: as `fit`, of what is left without a fold.
    """
    fold_of = deal(prepared, config)
    probabilities = np.zeros((len(prepared.table), len(prepared.table.arms)))
    for fold in range(config.num_folds):
        part = prepared.select(np.flatnonzero(fold_of != fold))
        model = fit(part, replace(config, seed=config.seed + fold + 1), version="held out", on_step=on_step)
        for place in np.flatnonzero(fold_of == fold):
            probabilities[place] = model.probabilities(prepared.encoded[place])
    return probabilities


def _refuse_poor(table: OutcomeTable) -> None:
    for arm, name in enumerate(table.arms):
        outcomes = table.successes[~np.isnan(table.successes[:, arm]), arm]
        if len(outcomes) < LEAST_PROMPTS:
            raise FitRefusedError(
                f"{len(outcomes)} outcomes of arm {name!r} are too few for a model; collect at least {LEAST_PROMPTS}"
            )
        num_successes = float(outcomes.sum())
        least = min(num_successes, len(outcomes) - num_successes)
        if least < LEAST_OF_A_CLASS:
            kind = "successes" if num_successes <= least else "failures"
            raise FitRefusedError(
                f"arm {name!r} has only {least:g} {kind} among {len(outcomes)} outcomes, and {LEAST_OF_A_CLASS} are "
                "needed to learn from; collect prompts of other levels"
            )


def _fit_scorer(prepared: Prepared, config: FitConfig) -> _Scorer:
    columns = fit_columns(prepared.encoded)
    rows = [columns.row(encoded) for encoded in prepared.encoded]
    table = prepared.table
    weights = np.zeros((columns.num, len(table.arms)), dtype=np.float32)
    intercepts = np.zeros(len(table.arms), dtype=np.float32)
    for arm in range(len(table.arms)):
        tried = np.flatnonzero(~np.isnan(table.successes[:, arm]))
        stacked = stack_rows([rows[place] for place in tried])
        targets = mixed_with_domain(
            table.successes[tried, arm], np.array(table.domains)[tried], share=config.domain_share
        )
        found, intercept = fit_logistic(stacked, targets, penalty=config.penalty, max_steps=config.max_steps)
        weights[stacked.names, arm], intercepts[arm] = found, intercept
    return _Scorer(columns, weights, intercepts)


def mixed_with_domain(successes: Floats, domains: NDArray[np.str_], *, share: float) -> Floats:
    """(1 − share) · outcome + share · mean of its domain, which `DOMAIN_PRIOR` draws towards the mean of all."""
    _, places = np.unique(domains, return_inverse=True)
    sums, sizes = np.bincount(places, weights=successes), np.bincount(places)
    means = (sums + DOMAIN_PRIOR * successes.mean()) / (sizes + DOMAIN_PRIOR)
    mixed: Floats = (1 - share) * successes + share * means[places]
    return mixed


def _calibration(scores: Floats, successes: Floats) -> Isotonic:
    tried = ~np.isnan(successes)
    return fit_isotonic(scores[tried], successes[tried])


def _fit_tokens(prepared: Prepared, columns: Columns, arm: int) -> TokenModel | None:
    """Ridge regression of ln(1 + tokens) on structure."""
    tokens = prepared.table.num_output_tokens[:, arm]
    counted = np.flatnonzero(~np.isnan(tokens))
    if len(counted) < LEAST_PROMPTS:
        return None
    features = np.stack([columns.deviations(prepared.encoded[place].structure) for place in counted]).astype(
        float
    )
    logs = np.log1p(tokens[counted])
    centred = features - features.mean(axis=0)
    weights = np.linalg.solve(
        centred.T @ centred + TOKENS_PENALTY * np.eye(features.shape[1]), centred.T @ (logs - logs.mean())
    )
    intercept = float(logs.mean() - features.mean(axis=0) @ weights)
    smearing = float(np.mean(np.exp(logs - intercept - features @ weights)))
    return TokenModel(weights.astype(np.float32), intercept, smearing, float(tokens[counted].max()))
