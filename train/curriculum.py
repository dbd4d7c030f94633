"""What to train on next: where there is most to learn, while no domain is left behind.

Of each domain and level the chance of success is known as a Beta posterior over the last so many rollouts. A prompt
teaches by the spread of its group, and the expected variance of a success is p(1 − p): *learnability*, 0 where all
fail or all succeed. Domains get groups in proportion to weight · learnability · transfer, and never less than a floor
of their plain share, against forgetting. Within a domain levels are drawn by learnability among those next to the
lowest that is not yet mastered, so that the window slides up as the policy does (RLVE, arXiv 2511.07317; learnability:
Foster and Foerster, arXiv 2502.12272).

Nothing here draws from a generator with a state: what is planned is a function of the seed, the step and what was
observed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from train.seeds import seed_of

MEMORY_ROLLOUTS: Final = 200.0
"""Of each level, about so many of the last count."""
PRIOR: Final = 1.0
"""Successes and failures that each level is given beforehand: unknown is worth trying."""
MASTERED: Final = 0.85
WINDOW: Final = 2
"""Levels in play at once: the lowest that is not mastered and those above it."""
REVIEW_SHARE: Final = 0.1
"""Of a domain's groups, those that go to levels below the window: mastered items keep answers short and right."""
NUM_INDICES: Final = 2**31


@dataclass(frozen=True, slots=True)
class Draw:
    """One prompt to be answered by a group."""

    domain: str
    level: int
    index: int


@dataclass(slots=True)
class Rate:
    """Rollouts of a level that passed, and that did not, the older counting less."""

    passed: float = 0.0
    failed: float = 0.0

    def observe(self, num_passed: int, num_failed: int) -> None:
        """Take a group in."""
        keep = max(0.0, 1 - (num_passed + num_failed) / MEMORY_ROLLOUTS)
        self.passed = self.passed * keep + num_passed
        self.failed = self.failed * keep + num_failed

    @property
    def mean(self) -> float:
        """The expected chance of success."""
        return (self.passed + PRIOR) / (self.passed + self.failed + 2 * PRIOR)

    @property
    def learnability(self) -> float:
        """4·E[p(1 − p)], in (0, 1]: of the posterior, so that a level hardly tried is not written off."""
        a, b = self.passed + PRIOR, self.failed + PRIOR
        return 4 * a * b / ((a + b) * (a + b + 1))


class Curriculum:
    """Plans steps, and hears what became of them.

    Args:
        levels: of each domain, rising in difficulty.
        weights: of each domain; 1 where absent.
        kind: `uniform` leaves learnability and windows out.
        floor: of its plain share, what each domain keeps.
        seed: of the run.
    """

    def __init__(
        self,
        levels: Mapping[str, Sequence[int]],
        *,
        weights: Mapping[str, float] | None = None,
        kind: Literal["learnability", "uniform"] = "learnability",
        floor: float = 0.3,
        seed: int = 0,
    ) -> None:
        self._levels = {domain: tuple(each) for domain, each in levels.items()}
        self._weights = {domain: (weights or {}).get(domain, 1.0) for domain in levels}
        self._kind = kind
        self._floor = floor
        self._seed = seed
        self.transfer: dict[str, float] = dict.fromkeys(levels, 1.0)
        """How much a step on each domain helps the others (`train.conflict`); 1 says nothing of it."""
        self.rates = {domain: {level: Rate() for level in each} for domain, each in self._levels.items()}
        self._owed = dict.fromkeys(levels, 0.0)

    def shares(self) -> dict[str, float]:
        """Of the groups, each domain's share; they sum to 1."""
        plain = _normalised(self._weights)
        if self._kind == "uniform":
            return plain
        wanted = _normalised(
            {
                domain: weight
                * self.transfer[domain]
                * max(self.rates[domain][level].learnability for level in self.window(domain))
                for domain, weight in self._weights.items()
            }
        )
        return {d: self._floor * plain[d] + (1 - self._floor) * wanted[d] for d in plain}

    def window(self, domain: str) -> tuple[int, ...]:
        """The levels in play."""
        levels = self._levels[domain]
        if self._kind == "uniform":
            return levels
        open_ = [n for n, level in enumerate(levels) if self.rates[domain][level].mean < MASTERED]
        lowest = open_[0] if open_ else len(levels) - 1
        return levels[lowest : lowest + WINDOW]

    def allow(self, levels: Mapping[str, Sequence[int]]) -> None:
        """From now on these levels of each domain are in play; what is known of the others is kept."""
        self._levels = {domain: tuple(levels[domain]) for domain in self._levels}

    def plan(self, step: int, num_groups: int) -> tuple[Draw, ...]:
        """The prompts of a step. What a share's fraction leaves over is owed to the domain and paid in a later step."""
        for domain, share in self.shares().items():
            self._owed[domain] += share * num_groups
        draws = []
        for place in range(num_groups):
            domain = max(self._owed, key=lambda name: (self._owed[name], name))
            self._owed[domain] -= 1
            level = self._level(domain, random.Random(seed_of(self._seed, "level", step, place)))
            index = seed_of(self._seed, "item", step, place) % NUM_INDICES
            draws.append(Draw(domain, level, index))
        return tuple(draws)

    def observe(self, domain: str, level: int, *, num_passed: int, num_failed: int) -> None:
        """A group was judged. Rollouts without a verdict count as neither."""
        self.rates[domain][level].observe(num_passed, num_failed)

    def _level(self, domain: str, rng: random.Random) -> int:
        window = self.window(domain)
        below = [level for level in self._levels[domain] if level < window[0]]
        if below and rng.random() < REVIEW_SHARE:
            return rng.choice(below)
        if self._kind == "uniform":
            return rng.choice(window)
        return rng.choices(window, [self.rates[domain][level].learnability for level in window])[0]

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "owed": self._owed,
            "transfer": self.transfer,
            "rates": {
                domain: {str(level): [rate.passed, rate.failed] for level, rate in rates.items()}
                for domain, rates in self.rates.items()
            },
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint of the same domains and levels."""
        self._owed.update(plain["owed"])
        self.transfer.update(plain["transfer"])
        for domain, rates in plain["rates"].items():
            for level, (passed, failed) in rates.items():
                self.rates[domain][int(level)] = Rate(passed, failed)


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
