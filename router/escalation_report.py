"""Whether escalation pays: predicting alone beside predicting and escalating, at equal expense, on held-out outcomes.

For every λ both policies are played on prompts whose outcomes on either arm are known: forecasts are by a model that
was fitted without the prompt's fold, and so is what the first tokens say of them. An escalated request takes the next
arm's answer and pays for the prompt and the held tokens of the first as well. That gives each policy a frontier of mean
success over mean expense; at some budgets between "the first arm always" and "the next arm always" the two are
compared. Intervals are over prompts, near-duplicates together (`router.resampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.calibration import sigmoid
from router.escalation import Band, PairModel, Revision
from router.escalation_fit import Trials, fit_pair, logits
from router.escalation_play import Answers, play
from router.offer import Metric
from router.resampling import Estimate, Resamples

Floats = NDArray[np.float64]

BUDGETS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the way from the first arm's expense to the next's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """Mean success of both policies at one budget."""

    budget: float
    """Share of the way from the first arm's expense to the next's."""
    expense: float
    """Mean of the metric per request."""
    alone: Estimate
    escalating: Estimate
    gain: Estimate
    """Of escalating over predicting alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationReport:
    """Both policies under one metric, with tokens held up to one commit point."""

    metric: Metric
    num_tokens: int
    statistics: tuple[str, ...]
    """That were chosen, fold by fold."""
    information: Estimate
    """Log loss of the first arm's forecast less that of the forecast told anew; nats an answer, more is better."""
    points: tuple[BudgetPoint, ...]
    mean_gain: Estimate
    """Over the budgets."""
    held_share: float
    """Of the requests at the middle budget that are held back."""
    escalated_share: float
    """And of those that are escalated there."""

    @property
    def pays(self) -> bool:
        """Whether the mean gain is above zero beyond chance."""
        return self.mean_gain.low > 0


def escalation_report(
    answers: Answers,
    groups: NDArray[np.int64],
    fold_of: NDArray[np.int64],
    generator: np.random.Generator,
    *,
    metric: Metric,
    num_tokens: int,
    band: Band,
    num_draws: int = 1000,
) -> EscalationReport:
    """The report; `metric` is the cost of a request, or the share that the next arm works on.

    Args:
        groups: number the near-duplicates among the prompts.
        fold_of: of each prompt; a group lies in one fold.
    """
    pairs = _pairs(answers.trials, fold_of, num_tokens)
    revised = _revised(answers.trials, fold_of, pairs)
    played = play(answers, revised, metric, num_tokens, band, _lowest_gains(answers, fold_of, pairs))
    resamples = Resamples.draw(groups, generator, num_draws=num_draws)
    least = float(played.expense_alone[-1].mean())  # at the greatest λ, where nobody goes up
    budgets = least + np.array(BUDGETS) * (played.always_next - least)

    def alone(counts: Floats) -> Floats:
        return _frontier(played.expense_alone, played.success_alone, counts, budgets)

    def escalating(counts: Floats) -> Floats:
        return _frontier(played.expense_escalating, played.success_escalating, counts, budgets)

    def gain(counts: Floats) -> Floats:
        return escalating(counts) - alone(counts)

    losses = _losses(answers.trials.forecasts[:, 0], answers.trials.successes[:, 0]) - _losses(
        revised[:, 0], answers.trials.successes[:, 0]
    )
    middle = int(np.argmin(np.abs(played.expense_escalating.mean(axis=1) - budgets[len(budgets) // 2])))
    return EscalationReport(
        metric=metric,
        num_tokens=num_tokens,
        statistics=tuple(dict.fromkeys(pair.statistic for pair in pairs)),
        information=resamples.estimate(lambda counts: counts @ losses / counts.sum(axis=1)),
        points=tuple(
            BudgetPoint(budget=budget, expense=float(expense), alone=a, escalating=e, gain=g)
            for budget, expense, a, e, g in zip(
                BUDGETS,
                budgets,
                *(resamples.estimates(figure) for figure in (alone, escalating, gain)),
                strict=True,
            )
        ),
        mean_gain=resamples.estimate(lambda counts: gain(counts).mean(axis=1)),
        held_share=float(played.is_held[middle].mean()),
        escalated_share=float(played.is_escalated[middle].mean()),
    )


def _pairs(trials: Trials, fold_of: NDArray[np.int64], num_tokens: int) -> list[PairModel]:
    """Of each fold, the model that was fitted without it."""
    folds = range(int(fold_of.max()) + 1)
    return [
        fit_pair(
            trials.select(np.flatnonzero(fold_of != fold)),
            first="first",
            next="next",
            num_tokens=[num_tokens],
        )
        for fold in folds
    ]


def _revised(trials: Trials, fold_of: NDArray[np.int64], pairs: Sequence[PairModel]) -> Floats:
    """(prompts, 2): both forecasts told anew, by models that had not seen the prompt."""
    revised = np.zeros((len(trials), 2))
    for fold, pair in enumerate(pairs):
        places = np.flatnonzero(fold_of == fold)
        part = trials.select(places)
        statistic = part.statistic(pair.statistic, pair.num_tokens)
        for arm, revision in enumerate((pair.revise_first, pair.revise_next)):
            revised[places, arm] = _told_anew(revision, part.forecasts[:, arm], statistic)
    return revised


def _lowest_gains(answers: Answers, fold_of: NDArray[np.int64], pairs: Sequence[PairModel]) -> Floats:
    """(prompts,): the gain if the statistic were at its lowest, without which nothing is held back."""
    lowest = np.array([pair.lowest for pair in pairs])[fold_of]
    gains = np.zeros(len(fold_of))
    for fold, pair in enumerate(pairs):
        at = fold_of == fold
        first, following = answers.trials.forecasts[at].T
        gains[at] = _told_anew(pair.revise_next, following, lowest[at]) - _told_anew(
            pair.revise_first, first, lowest[at]
        )
    return gains


def _told_anew(revision: Revision, forecasts: Floats, statistic: Floats) -> Floats:
    return sigmoid(revision.intercept + revision.slope * logits(forecasts) + revision.weight * statistic)


def _frontier(expenses: Floats, successes: Floats, counts: Floats, budgets: Floats) -> Floats:
    """(draws, budgets): mean success at these mean expenses, of straight lines between the λ's."""
    totals = counts.sum(axis=1, keepdims=True)
    spent, gained = counts @ expenses.T / totals, counts @ successes.T / totals
    order = np.argsort(spent, axis=1, kind="stable")
    spent, gained = np.take_along_axis(spent, order, 1), np.take_along_axis(gained, order, 1)
    return np.stack([np.interp(budgets, *curve) for curve in zip(spent, gained, strict=True)])


def _losses(probabilities: Floats, successes: Floats) -> Floats:
    scores = logits(probabilities)
    return np.logaddexp(0.0, scores) - successes * scores
