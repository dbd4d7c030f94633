"""Which group differs, if any: samples of known distributions, and the truth is what they were drawn from.

Samples whose evidence is not clear are drawn again, so that the truth can be told from them: where a group differs it
does so by many standard errors, and where none does no two are far apart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from math import sqrt
from statistics import fmean, variance
from typing import Final

from train.domains.base import Family
from train.domains.data.asking import NOTHING, judge, label_task, number_task
from train.domains.data.tables import Table
from train.domains.task import Task, TaskDomain

NUM_EACH: Final = 8
CLEAR: Final = 4.0
"""|t| of a difference that is to be seen."""
SMALL: Final = 2.0
"""|t| of one that is to be put down to chance."""
CLEAR_RATIO: Final = 6.0
"""Of variances."""
SMALL_RATIO: Final = 3.0

Samples = dict[str, list[int]]


def welch_t(one: Sequence[int], other: Sequence[int]) -> float:
    """Welch's statistic for two means (Biometrika 34, 1947)."""
    error = sqrt(variance(one) / len(one) + variance(other) / len(other))
    return (fmean(one) - fmean(other)) / error if error else 0.0


def _groups(rng: random.Random, level: int) -> Task:
    """Another mean, another mean or none, another spread or none, the statistic itself."""
    names = "ABCDE"[: 4 if level < 2 else 5]
    if level == 3:
        return _statistic(rng)
    odd = rng.choice((*names, *((NOTHING,) if level else ())))
    while True:
        samples = {name: _sample(rng, is_odd=name == odd, in_spread=level == 2) for name in names}
        if _is_clear(samples, odd, in_spread=level == 2):
            break
    what = "spread" if level == 2 else "mean"
    rows = [(name, value) for name, values in samples.items() for value in values]
    rng.shuffle(rows)
    ending = " Differences that chance explains are none." if level else ""
    return label_task(
        f"{Table(('group', 'value'), tuple(rows)).csv}\n"
        f"Which group comes from a distribution with another {what} than the rest?{ending}",
        odd,
        (*names, *((NOTHING,) if level else ())),
    )


def _sample(rng: random.Random, *, is_odd: bool, in_spread: bool) -> list[int]:
    mean = 50 + (rng.choice((-20, 20)) if is_odd and not in_spread else 0)
    return [round(rng.gauss(mean, 24 if is_odd and in_spread else 6)) for _ in range(NUM_EACH)]


def _is_clear(samples: Samples, odd: str, *, in_spread: bool) -> bool:
    for one, other in combinations(samples, 2):
        ratio = max(variance(samples[one]), 1) / max(variance(samples[other]), 1)
        size = max(ratio, 1 / ratio) if in_spread else abs(welch_t(samples[one], samples[other]))
        clear, small = (CLEAR_RATIO, SMALL_RATIO) if in_spread else (CLEAR, SMALL)
        if (size < clear) if odd in {one, other} else (size > small):
            return False
    return True


def _statistic(rng: random.Random) -> Task:
    samples = [
        [round(rng.gauss(50 + shift, 8)) for _ in range(NUM_EACH)] for shift in (0, rng.randint(-12, 12))
    ]
    while any(len(set(sample)) < 3 for sample in samples):
        samples = [[rng.randint(40, 60) for _ in range(NUM_EACH)] for _ in range(2)]
    rows = [(name, value) for name, values in zip("AB", samples, strict=True) for value in values]
    return number_task(
        f"{Table(('group', 'value'), tuple(rows)).csv}\n"
        "What is Welch's t statistic for the difference of the means, A minus B, with sample variances?",
        welch_t(*samples),
        2,
    )


DOMAINS: Final = (
    TaskDomain(
        "data_groups",
        "Tell which group comes from another distribution, if any; the truth is known, and the samples are clear.",
        _groups,
        judge,
        Family.DATA_SCIENCE,
    ),
)
