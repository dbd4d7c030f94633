"""The mean of a sample with its 95 % interval, where few values may carry great weight."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
import numpy.typing as npt

Z_95: Final = 1.959964
MIN_FREEDOM: Final = 3.0

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over requests with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit; `factor` is above 0."""
        return Estimate(value=self.value * factor, low=self.low * factor, high=self.high * factor)


def mean_estimate(values: Vector) -> Estimate:
    """The mean with Student's interval.

    Few decisions carry great weights, which makes the standard error itself uncertain: its degrees of freedom are
    2·n / (kurtosis − 1), by which the variance of a sample's variance is that of a normal one.
    """
    mean, deviation = float(values.mean()), values - values.mean()
    variance = float(np.square(deviation).mean())
    if not variance:
        return Estimate(value=mean, low=mean, high=mean)
    kurtosis = float(np.power(deviation, 4).mean()) / variance**2
    freedom = max(MIN_FREEDOM, 2 * len(values) / max(kurtosis - 1, 1e-9))
    half = _student(freedom) * sqrt(variance / (len(values) - 1))
    return Estimate(value=mean, low=mean - half, high=mean + half)


def _student(freedom: float) -> float:
    """The 97.5 % point of Student's t, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5)."""
    z = Z_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2
