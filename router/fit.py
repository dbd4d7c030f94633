"""Fits the difficulty model: from a table of outcomes to calibrated probabilities for each arm. Offline, and pure.

1. Near-duplicates among the prompts are grouped, and the groups dealt to folds.
2. For each fold a penalised logistic regression an arm is fitted on the others, and scores the fold.
3. On those held-out scores, which their models had not seen, and the features, trees are boosted: for each fold on the
   others again. The number of trees is the least that is not clearly worse, held out, than the best; it may be none.
4. What scores and trees say of each fold gives each arm's isotonic map.
5. Regressions and trees are fitted once more, on everything.

Outcomes are noisy, and those of one domain tell of each other: before a regression each outcome is mixed with the mean
of its domain among the prompts that it is fitted on. What is calibrated and judged on is never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.boosting import BoostConfig, Trees, fit_trees
from router.calibration import fit_isotonic, fit_line
from router.duplicates import duplicate_groups, folds
from router.encoding import Columns, Embedder, Encoded, encode, fit_columns
from router.fitted import ArmModel, FittedModel, Scorer, TokenModel
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
OUTSIDE_SHARE: Final = 0.01
"""Of the prompts: those that are counted as out of distribution, each read by a model that had not seen its like."""
MIN_DOMAINS_PER_FOLD: Final = 2
"""With fewer, what is new is another prompt of the same domains; with as many, another domain."""


class FitRefusedError(ValueError):
    """No honest model can be made of these outcomes; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """How to fit."""

    penalty: float = 1.0
    """On the squared weights: more is smoother."""
    domain_share: float = 0.5
    """The share of the domain's mean in what is regressed on, in [0, 1); none where there is but one domain."""
    num_folds: int = 5
    seed: int = 0
    """Of the deal of groups to folds."""
    max_steps: int = 80
    """Of the regressions' optimiser."""
    boosting: BoostConfig = field(default_factory=BoostConfig)
    """`num_trees` is the most that may be chosen."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table, read: what every fit on it, or on a part of it, starts from."""

    table: OutcomeTable
    encoded: tuple[Encoded, ...]
    groups: NDArray[np.int64]
    """Near-duplicates have one number."""
    embed: Embedder | None = None
    """What the prompts were read with."""

    def select(self, places: NDArray[np.int64]) -> Prepared:
        """The part at these places."""
        encoded = tuple(self.encoded[place] for place in places)
        return replace(self, table=self.table.select(places), encoded=encoded, groups=self.groups[places])


def prepare(table: OutcomeTable, embed: Embedder | None = None) -> Prepared:
    """Read the prompts of `table` and group the near-duplicates among them."""
    encoded = tuple(encode(table.view(place), embed) for place in range(len(table)))
    return Prepared(table, encoded, duplicate_groups([each.words for each in encoded]), embed)


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
    return _fit(prepared, config, version, on_step)


def _fit(prepared: Prepared, config: FitConfig, version: str, on_step: Callable[[], None]) -> FittedModel:
    table = prepared.table
    fold_of = deal(prepared, config)
    held_out = _held_out(prepared, fold_of, config, on_step)
    scorer = _fit_scorer(prepared, config)
    on_step()
    return FittedModel(
        version=version,
        arms=table.arms,
        scorer=scorer,
        by_arm=tuple(
            _fit_arm(held_out, arm, fold_of, config, tokens=_fit_tokens(prepared, scorer.columns, arm))
            for arm in range(len(table.arms))
        ),
        most_unknown=float(
            np.quantile(unknown_shares(prepared, _deal_new(prepared, config)), 1 - OUTSIDE_SHARE)
        ),
        embed=prepared.embed,
    )


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """What regressions say of prompts that they had not seen."""

    scores: Floats
    """(prompts, arms)."""
    dense: NDArray[np.float32]
    """(prompts, what trees see)."""
    successes: Floats


def _held_out(
    prepared: Prepared, fold_of: NDArray[np.int64], config: FitConfig, on_step: Callable[[], None]
) -> _HeldOut:
    num_prompts, num_arms = prepared.table.successes.shape
    scores = np.zeros((num_prompts, num_arms), dtype=np.float32)
    dense: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * num_prompts
    for fold in range(config.num_folds):
        scorer = _fit_scorer(prepared.select(np.flatnonzero(fold_of != fold)), config)
        for place in np.flatnonzero(fold_of == fold):
            encoded = prepared.encoded[place]
            scores[place] = scorer.scores(encoded)
            dense[place] = scorer.dense(encoded, scores[place])
        on_step()
    return _HeldOut(scores.astype(np.float64), np.stack(dense), prepared.table.successes)


def unknown_shares(prepared: Prepared, fold_of: NDArray[np.int64]) -> Floats:
    """Of each prompt's words, and runs of words, the share that is in none of the other folds."""
    shares = np.zeros(len(prepared.table))
    for fold in np.unique(fold_of):
        columns = fit_columns(prepared.select(np.flatnonzero(fold_of != fold)).encoded)
        for place in np.flatnonzero(fold_of == fold):
            shares[place] = columns.rarity(prepared.encoded[place])[0]
    return shares


def _fit_arm(
    held_out: _HeldOut,
    arm: int,
    fold_of: NDArray[np.int64],
    config: FitConfig,
    *,
    tokens: TokenModel | None,
) -> ArmModel:
    tried = ~np.isnan(held_out.successes[:, arm])
    successes, dense = held_out.successes[tried, arm], held_out.dense[tried]
    line = fit_line(held_out.scores[tried, arm], successes)
    offsets = line(held_out.scores[tried, arm])
    generator = np.random.Generator(np.random.PCG64(config.seed))

    def boost(places: NDArray[np.bool_], boosting: BoostConfig) -> Trees:
        return fit_trees(dense[places], successes[places], offsets[places], boosting, generator)

    by_num_trees = np.zeros((config.boosting.num_trees + 1, len(successes)))
    for fold in range(config.num_folds):
        is_in = fold_of[tried] == fold
        if is_in.any():
            by_num_trees[:, is_in] = offsets[is_in] + boost(~is_in, config.boosting).staged(dense[is_in])
    num_trees = _least_trees(by_num_trees, successes)
    return ArmModel(
        line=line,
        trees=boost(np.ones(len(successes), dtype=bool), replace(config.boosting, num_trees=num_trees)),
        calibration=fit_isotonic(by_num_trees[num_trees], successes),
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
    fold_of = deal(prepared, config) if fold_of is None else fold_of
    for fold in range(config.num_folds):
        part = prepared.select(np.flatnonzero(fold_of != fold))
        refuse_poor(part.table, share=0.5)
        model = _fit(part, replace(config, seed=config.seed + fold + 1), "held out", on_step)
        yield np.flatnonzero(fold_of == fold), model


def refuse_poor(table: OutcomeTable, *, share: float = 1.0) -> None:
    """Return where there are outcomes enough of each arm, and of each class; or this share of what is enough.

    Raises:
        FitRefusedError: there are not.
    """
    least_prompts, least_of_a_class = int(share * LEAST_PROMPTS), int(share * LEAST_OF_A_CLASS)
    for arm, name in enumerate(table.arms):
        outcomes = table.successes[~np.isnan(table.successes[:, arm]), arm]
        if len(outcomes) < least_prompts:
            raise FitRefusedError(
                f"{len(outcomes)} outcomes of arm {name!r} are too few for a model; collect at least {least_prompts}"
            )
        num_successes = float(outcomes.sum())
        least = min(num_successes, len(outcomes) - num_successes)
        if least < least_of_a_class:
            kind = "successes" if num_successes <= least else "failures"
            raise FitRefusedError(
                f"arm {name!r} has only {least:g} {kind} among {len(outcomes)} outcomes, and {least_of_a_class} are "
                "needed to learn from; collect prompts of other levels"
            )


def _fit_scorer(prepared: Prepared, config: FitConfig) -> Scorer:
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
    return Scorer(columns, weights, intercepts)


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
