"""Active exploration: hotter, and in other words, where a level is new or its chance of success is uncertain.

The *heat* of a domain's level is the mean of its novelty, N/(N + rollouts seen), and its uncertainty, the standard
deviation of the posterior of its chance of success over that of knowing nothing; both are in (0, 1] and fall with what
is seen. The temperature goes from the lowest to the highest by heat, in a few steps so that answers of one temperature
are sampled together; a prompt is put in other words with a chance that rises with heat.

A group is scored at the temperature at which it was drawn (`Group.temperature`), so that its log-probabilities are
those of one distribution on both sides of the ratio.

`uniform` draws temperature and wording without looking at either: what `active` has to beat.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import sqrt
from typing import Final, Literal

from train.curriculum import PRIOR, Rate
from train.seeds import seed_of

Kind = Literal["fixed", "uniform", "active"]

NOVEL_ROLLOUTS: Final = 32.0
"""N: a level of which so many are seen is half as novel as one of which none are."""
NUM_TEMPERATURES: Final = 5
VARIED_SHARE: Final = 0.5
"""Of the prompts at heat 1, those that are put in other words."""
WORDINGS: Final = ("Question: {}", "Task: {}", "{}\nAnswer:", "Please answer: {}")


@dataclass(frozen=True, slots=True)
class Way:
    """How a prompt is explored."""

    temperature: float
    wording: str = "{}"

    def said(self, prompt: str) -> str:
        """The prompt in these words."""
        before, after = self.wording.split("{}")
        return before + prompt + after


def novelty(rate: Rate) -> float:
    """1 for a level that was never tried, falling to 0."""
    return NOVEL_ROLLOUTS / (NOVEL_ROLLOUTS + rate.passed + rate.failed)


def uncertainty(rate: Rate) -> float:
    """Standard deviation of Beta(passed + 1, failed + 1) over that of Beta(1, 1)."""
    a, b = rate.passed + PRIOR, rate.failed + PRIOR
    return sqrt(12 * a * b / ((a + b) ** 2 * (a + b + 1)))


def heat(rate: Rate) -> float:
    """In (0, 1]."""
    return (novelty(rate) + uncertainty(rate)) / 2


class Exploration:
    """Chooses ways. It has no state of its own: what it knows are the curriculum's rates.

    Args:
        kind: `fixed` is always the plain prompt at `temperature`.
        temperature: of `fixed`.
        temperatures: the lowest and the highest of the other kinds.
        seed: of the run.
    """

    def __init__(
        self, kind: Kind, *, temperature: float, temperatures: tuple[float, float], seed: int
    ) -> None:
        self._kind = kind
        self._temperature = temperature
        self._low, self._high = temperatures
        self._seed = seed

    def way(self, rate: Rate, step: int, place: int) -> Way:
        """Of the prompt at this place of a step, whose level has this rate."""
        if self._kind == "fixed":
            return Way(self._temperature)
        rng = random.Random(seed_of(self._seed, "exploration", step, place))
        warmth = heat(rate) if self._kind == "active" else rng.random()
        is_varied = rng.random() < VARIED_SHARE * warmth
        return Way(self._step(warmth), rng.choice(WORDINGS) if is_varied else "{}")

    def _step(self, warmth: float) -> float:
        """The nearest of the temperatures."""
        share = round(warmth * (NUM_TEMPERATURES - 1)) / (NUM_TEMPERATURES - 1)
        return self._low + share * (self._high - self._low)
