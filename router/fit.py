"""Fits the difficulty model: from a table of outcomes to calibrated probabilities for each arm. Offline, and pure.

1. Near-duplicates among the prompts are grouped, and the groups dealt to folds.
2. For each fold a penalised logistic regression an arm is fitted on the others, and scores the fold.
3. On those held-out scores, which their models had not seen, and the features, trees are boosted: for each fold on the
   others again. The number of trees is the least that is not clearly worse, held out, than the best; it may be none.
4. What scores and trees say of each fold gives each arm's isotonic map.
5. Regressions and trees are fitted once more, on everything.

Regressions and trees are fitted on copies of the prompts too, which say the same in other manners (`router.copies`); a
copy is always in its prompt's fold, and a prompt with its copies counts once. Maps, expected tokens and all figures are
of the prompts alone.

Outcomes are noisy, and those of one domain tell of each other: before a regression each outcome is mixed with the mean
of its domain among the prompts that it is fitted on. What is calibrated and judged on is never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.boosting import BoostConfig, Trees, fit_trees
from router.calibration import fit_isotonic, fit_line
from router.duplicates import folds
from router.encoding import Columns, fit_columns
from router.fit_config import LEAST_PROMPTS, FitConfig, FitRefusedError, refuse_poor
from router.fit_scores import HeldOutScores, fit_scorer, held_out_scores
from router.fitted import ArmModel, FittedModel, TokenModel
from router.outcome_table import OutcomeTable
from router.prepared import Prepared

Floats = NDArray[np.float64]

TOKENS_PENALTY: Final = 1.0
OUTSIDE_SHARE: Final = 0.01
"""Of the prompts: those that are counted as out of distribution, each read by a model that had not seen its like."""
MIN_DOMAINS_PER_FOLD: Final = 2
"""With fewer, what is new is another prompt of the same domains; with as many, another domain."""


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
    refuse_poor(prepared.table)
    return _fit(prepared.copied(config), config, version, on_step)


def _fit(prepared: Prepared, config: FitConfig, version: str, on_step: Callable[[], None]) -> FittedModel:
    table = prepared.table
    fold_of = deal(prepared, config)
    held_out = held_out_scores(prepared, fold_of, config, on_step)
    scorer = fit_scorer(prepared, config)
    on_step()
    return FittedModel(
        version=version,
        arms=table.arms,
        scorer=scorer,
        by_arm=tuple(
            _fit_arm(
                held_out,
                table.successes[:, arm],
                arm,
                fold_of,
                config,
                tokens=_fit_tokens(prepared, scorer.columns, arm),
            )
            for arm in range(len(table.arms))
        ),
        most_unknown=float(
            np.quantile(unknown_shares(prepared, _deal_new(prepared, config)), 1 - OUTSIDE_SHARE)
        ),
        embed=prepared.embed,
    )


def unknown_shares(prepared: Prepared, fold_of: NDArray[np.int64]) -> Floats:
    """Of each prompt's words, and runs of words, the share that is in none of the other folds."""
    shares = np.zeros(len(prepared.table))
    for fold in np.unique(fold_of):
        columns = fit_columns(prepared.select(np.flatnonzero(fold_of != fold)).encoded)
        for place in np.flatnonzero(fold_of == fold):
            shares[place] = columns.rarity(prepared.encoded[place])[0]
    return shares


def _fit_arm(
    held_out: HeldOutScores,
    outcomes: Floats,
    arm: int,
    fold_of: NDArray[np.int64],
    config: FitConfig,
    *,
    tokens: TokenModel | None,
) -> ArmModel:
    tried = ~np.isnan(outcomes[held_out.places])
    places, counts, dense = held_out.places[tried], held_out.counts[tried], held_out.dense[tried]
    successes, is_own = outcomes[places], ~held_out.is_copy[tried]
    line = fit_line(held_out.scores[tried, arm][is_own], successes[is_own])
    offsets = line(held_out.scores[tried, arm])
    generator = np.random.Generator(np.random.PCG64(config.seed))

    def boost(lines: NDArray[np.bool_], boosting: BoostConfig) -> Trees:
        return fit_trees(
            dense[lines], successes[lines], offsets[lines], boosting, generator, counts=counts[lines]
        )

    by_num_trees = np.zeros((config.boosting.num_trees + 1, len(successes)))
    for fold in range(config.num_folds):
        is_in = fold_of[places] == fold
        if is_in.any():
            by_num_trees[:, is_in] = offsets[is_in] + boost(~is_in, config.boosting).staged(dense[is_in])
    by_num_trees = by_num_trees[:, is_own]
    num_trees = _least_trees(by_num_trees, successes[is_own])
    return ArmModel(
        line=line,
        trees=boost(np.ones(len(successes), dtype=bool), replace(config.boosting, num_trees=num_trees)),
        calibration=fit_isotonic(by_num_trees[num_trees], successes[is_own]),
        tokens=tokens,
    )


def _least_trees(by_num_trees: Floats, successes: Floats) -> int:
    """The least number of trees within a standard error of the least loss (Breiman et al. 1984, 3.4.3)."""
    losses = np.logaddexp(0.0, by_num_trees) - successes * by_num_trees
    excess = losses - losses[int(np.argmin(losses.mean(axis=1)))]
    is_as_good = excess.mean(axis=1) <= excess.std(axis=1) / np.sqrt(len(successes))
    return int(np.argmax(is_as_good))


def deal(prepared: Prepared, config: FitConfig) -> NDArray[np.int64]:
    """The fold of each prompt.

    Raises:
        FitRefusedError: fewer groups of near-duplicates than folds.
    """
    try:
        return folds(prepared.groups, config.num_folds, np.random.Generator(np.random.PCG64(config.seed)))
    except ValueError as error:
        raise FitRefusedError(str(error)) from None


def has_domains(table: OutcomeTable, config: FitConfig) -> bool:
    """Whether there are domains enough to see how a model does on others than it was fitted on."""
    return len(set(table.domains)) >= MIN_DOMAINS_PER_FOLD * config.num_folds


def _deal_new(prepared: Prepared, config: FitConfig) -> NDArray[np.int64]:
    """The folds that say what is new to a model: domains, where there are enough."""
    return deal_domains(prepared, config) if has_domains(prepared.table, config) else deal(prepared, config)


def deal_domains(prepared: Prepared, config: FitConfig) -> NDArray[np.int64]:
    """The fold of each prompt, no domain being in two of them: what is judged so holds for tasks of another kind.

    Raises:
        FitRefusedError: fewer domains than folds.
    """
    _, domains = np.unique(np.array(prepared.table.domains), return_inverse=True)
    return deal(replace(prepared, groups=domains.astype(np.int64)), config)


def predict_held_out(
    prepared: Prepared, config: FitConfig, *, on_step: Callable[[], None] = lambda: None
) -> Floats:
    """Each prompt's probabilities, (prompts, arms), by a model that was fitted and calibrated without its fold.

    Raises:
        FitRefusedError: as `fit`, of what is left without a fold.
    """
    probabilities = np.zeros((len(prepared.table), len(prepared.table.arms)))
    for places, model in held_out_models(prepared, config, on_step=on_step):
        for place in places:
            probabilities[place] = model.probabilities(prepared.encoded[place])
    return probabilities


def held_out_models(
    prepared: Prepared,
    config: FitConfig,
    *,
    fold_of: NDArray[np.int64] | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Iterator[tuple[NDArray[np.int64], FittedModel]]:
    """For each fold, where its prompts stand, and a model that was fitted and calibrated without them.

    Args:
        prepared: by `prepare`.
        config: how to fit.
        fold_of: the fold of each prompt; by near-duplicates where absent.
        on_step: as of `fit`.

    Raises:
        FitRefusedError: as `fit`; also where a fold leaves less than half of what a model needs.
    """
    refuse_poor(prepared.table)
    prepared = prepared.copied(config)
    fold_of = deal(prepared, config) if fold_of is None else fold_of
    for fold in range(config.num_folds):
        part = prepared.select(np.flatnonzero(fold_of != fold))
        refuse_poor(part.table, share=0.5)
        model = _fit(part, replace(config, seed=config.seed + fold + 1), "held out", on_step)
        yield np.flatnonzero(fold_of == fold), model


def _fit_tokens(prepared: Prepared, columns: Columns, arm: int) -> TokenModel | None:
    """Ridge regression of ln(1 + tokens) on the features."""
    tokens = prepared.table.num_output_tokens[:, arm]
    counted = np.flatnonzero(~np.isnan(tokens))
    if len(counted) < LEAST_PROMPTS:
        return None
    features = np.stack([columns.deviations(prepared.encoded[place].features) for place in counted]).astype(
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
