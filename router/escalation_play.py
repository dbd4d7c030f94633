"""Both policies at every λ, on prompts known on either arm: predicting alone, and escalating as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.arms import Price
from router.escalation import Band
from router.escalation_fit import Trials
from router.offer import Metric

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NUM_PRICES: Final = 80
"""Values of λ between where everybody goes up who may, and where nobody does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What both arms made of the prompts, and what of it is known before."""

    trials: Trials
    num_input_tokens: Floats
    """(prompts, 2)."""
    num_output_tokens: Floats
    """(prompts, 2)."""
    prices: tuple[Price, Price]

    def costs(self) -> Floats:
        """(prompts, 2): what the answers cost."""
        return np.column_stack([self._costs(arm, self.num_output_tokens[:, arm]) for arm in (0, 1)])

    def expected_costs(self) -> Floats:
        """(prompts, 2): what they were expected to cost, by the arm's mean length."""
        means = self.num_output_tokens.mean(axis=0)
        return np.column_stack([self._costs(arm, np.full(len(self.trials), means[arm])) for arm in (0, 1)])

    def wasted_costs(self, num_tokens: int) -> Floats:
        """(prompts,): what the first arm takes until its answer is given up after so many tokens."""
        return self._costs(0, np.minimum(self.num_output_tokens[:, 0], num_tokens))

    def _costs(self, arm: int, num_output_tokens: Floats) -> Floats:
        price = self.prices[arm]
        return (price.input * self.num_input_tokens[:, arm] + price.output * num_output_tokens) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What becomes of each prompt: (prices, prompts) each, λ rising."""

    success_alone: Floats
    expense_alone: Floats
    success_escalating: Floats
    expense_escalating: Floats
    is_held: Flags
    is_escalated: Flags
    always_next: float
    """Mean expense of the next arm always."""


def play(
    answers: Answers, revised: Floats, metric: Metric, num_tokens: int, band: Band, lowest_gains: Floats
) -> Play:
    """Play.

    Args:
        revised: (prompts, 2), both forecasts told anew.
        metric: the cost of a request, or the share that the next arm works on.
        num_tokens: that are held.
        lowest_gains: (prompts,), the gain of going up if the tokens were as doubtful as they come.
    """
    forecasts, successes = answers.trials.forecasts, answers.trials.successes
    is_share = metric is Metric.FULL_SHARE
    ones = np.ones(len(forecasts))
    spent = np.column_stack((0 * ones, ones)) if is_share else answers.costs()
    expected = np.column_stack((0 * ones, ones)) if is_share else answers.expected_costs()
    wasted = 0 * ones if is_share else answers.wasted_costs(num_tokens)
    gain, step = forecasts[:, 1] - forecasts[:, 0], expected[:, 1] - expected[:, 0]
    later_gain = revised[:, 1] - revised[:, 0]
    prices = _prices(np.concatenate((gain / step, later_gain / expected[:, 1])))[:, None]
    goes_up = gain > prices * step
    in_band = (forecasts[:, 0] >= band.low) & (forecasts[:, 0] <= band.high)
    is_held = ~goes_up & in_band & (lowest_gains > prices * expected[:, 1])
    is_escalated = is_held & (later_gain > prices * expected[:, 1])

    def either(is_up: Flags) -> tuple[Floats, Floats]:
        return np.where(is_up, successes[:, 1], successes[:, 0]), np.where(is_up, spent[:, 1], spent[:, 0])

    success_alone, expense_alone = either(goes_up)
    success_escalating, expense_escalating = either(goes_up | is_escalated)
    return Play(
        success_alone=success_alone,
        expense_alone=expense_alone,
        success_escalating=success_escalating,
        expense_escalating=expense_escalating + is_escalated * wasted,
        is_held=is_held,
        is_escalated=is_escalated,
        always_next=float(spent[:, 1].mean()),
    )


def _prices(rises: Floats) -> Floats:
    """Values of λ from 0 to where nobody goes up, dense where requests change arms."""
    positive = rises[rises > 0]
    if not len(positive):
        return np.array([0.0, 1.0])
    inner = np.quantile(positive, np.linspace(0, 1, NUM_PRICES))
    return np.unique(np.concatenate(([0.0], inner, [2 * inner[-1]])))
