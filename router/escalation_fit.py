"""Fits what first tokens say of success: a small logistic for each arm of a pair, on held-out forecasts. Offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.calibration import sigmoid
from router.escalation import EDGE, STATISTICS, PairModel, Revision
from router.first_tokens import FirstTokens

Floats = NDArray[np.float64]

NUM_TOKENS: Final = (2, 4, 8, 16)
"""After how many tokens the question may be settled."""
PENALTY: Final = 3.0
"""On the squared distance from "the forecast was right, and the tokens say nothing", the statistic in units of its
spread: about so many outcomes' worth of trust in the forecast."""
LOWEST_SHARE: Final = 0.02
"""Of answers whose statistic lies below `PairModel.lowest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Prompts that both arms answered, and of which the first arm's tokens are known."""

    forecasts: Floats
    """(prompts, 2): of the first arm and of the next, held out."""
    successes: Floats
    """(prompts, 2)."""
    tokens: Sequence[FirstTokens]
    """Of the first arm."""

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, places: NDArray[np.int64]) -> Trials:
        """Those at these places."""
        tokens = [self.tokens[place] for place in places]
        return Trials(forecasts=self.forecasts[places], successes=self.successes[places], tokens=tokens)

    def statistic(self, name: str, num_tokens: int) -> Floats:
        """Of each trial's first tokens."""
        of = STATISTICS[name]
        return np.array([of(tokens.first(num_tokens)) for tokens in self.tokens])


def fit_pair(trials: Trials, *, first: str, next: str, num_tokens: Sequence[int] = NUM_TOKENS) -> PairModel:
    """The pair's model, with the statistic and the number of tokens that tell most of both arms' successes."""
    fits = [_fit(trials, name, num) for name in STATISTICS for num in num_tokens]
    _, name, num, revisions = min(fits, key=lambda fit: fit[0])
    return PairModel(
        first=first,
        next=next,
        statistic=name,
        num_tokens=num,
        lowest=float(np.quantile(trials.statistic(name, num), LOWEST_SHARE)),
        revise_first=revisions[0],
        revise_next=revisions[1],
    )


def _fit(trials: Trials, name: str, num_tokens: int) -> tuple[float, str, int, list[Revision]]:
    statistic = trials.statistic(name, num_tokens)
    fits = [fit_revision(trials.forecasts[:, arm], statistic, trials.successes[:, arm]) for arm in (0, 1)]
    return sum(loss for loss, _ in fits), name, num_tokens, [revision for _, revision in fits]


def fit_revision(
    forecasts: Floats, statistic: Floats, successes: Floats, *, num_steps: int = 30
) -> tuple[float, Revision]:
    """The likeliest revision, drawn towards the forecast as it is; with its penalised loss, by Newton's method."""
    centre, spread = float(statistic.mean()), float(statistic.std()) or 1.0
    x = np.column_stack((np.ones(len(forecasts)), logits(forecasts), (statistic - centre) / spread))
    point = prior = np.array([0.0, 1.0, 0.0])
    for _ in range(num_steps):
        p = sigmoid(x @ point)
        curvature = x.T @ (x * (p * (1 - p))[:, None]) + PENALTY * np.eye(3)
        slope = x.T @ (p - successes) + PENALTY * (point - prior)
        point = point - np.clip(np.linalg.solve(curvature, slope), -2, 2)
    scores = x @ point
    loss = float(np.sum(np.logaddexp(0.0, scores) - successes * scores))
    loss += PENALTY / 2 * float((point - prior) @ (point - prior))
    weight = float(point[2]) / spread
    return loss, Revision(intercept=float(point[0]) - weight * centre, slope=float(point[1]), weight=weight)


def logits(probabilities: Floats) -> Floats:
    """Log odds, of probabilities kept off 0 and 1."""
    p = np.clip(probabilities, EDGE, 1 - EDGE)
    return np.log(p / (1 - p))
