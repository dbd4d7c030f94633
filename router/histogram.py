"""Whether a number is distributed as it used to be: the population stability index, in constant memory.

PSI = Σ (q − p)·ln(q/p) over bins, with the shares p of a reference and q of late: the symmetric Kullback–Leibler
divergence of the two (Jeffreys). By custom below 0.1 nothing has changed and above 0.25 much has. Without any change
its mean is about (bins − 1)·(1/n + 1/m) for n and m independent values; that much is taken off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final

import numpy as np

NUM_BINS: Final = 10
PSEUDO_COUNT: Final = 0.5
"""Added to each bin, so that an empty one does not weigh infinitely."""
MIN_SHARE: Final = 0.01
"""A bin of the reference that held less is taken to have held so much: what is new is no alarm while it is rare."""
_RESCALE_AT: Final = 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """How a number was distributed."""

    edges: tuple[float, ...]
    """Between bins, rising: one fewer than there are shares. A value on an edge lies above it."""
    shares: tuple[float, ...]
    num_values: int

    def bin(self, value: float) -> int:
        """The bin of a value."""
        return bisect_right(self.edges, value)


def reference(values: Sequence[float], *, num_bins: int = NUM_BINS) -> Reference:
    """Bins of equal shares of `values`, as far as they differ: what half of them are alike in makes one bin.

    What nearly all of them are alike in makes two: the least value, and whatever is more.

    Raises:
        ValueError: there are no values.
    """
    if not len(values):
        raise ValueError("a reference needs values")
    inner = np.quantile(values, np.arange(1, num_bins) / num_bins)
    least = min(values)
    edges = tuple(float(edge) for edge in np.unique(inner) if edge > least)
    if not edges:
        edges = (
            float(min((value for value in values if value > least), default=np.nextafter(least, np.inf))),
        )
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    shares = tuple(float(count) / len(values) for count in counts)
    return Reference(edges=edges, shares=shares, num_values=len(values))


@dataclass(slots=True, kw_only=True)
class RecentHistogram:
    """The recent shares of a reference's bins; a value as old as `num_recent` others counts 1/e of a new one."""

    reference: Reference
    num_recent: float
    counts: list[float] = field(default_factory=list)
    weight: float = 1.0
    """Of the next value; grows, which is cheaper than to let all counts shrink."""
    num_values: int = 0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0.0] * len(self.reference.shares)

    def observe(self, value: float) -> None:
        """Take a value in."""
        self.counts[self.reference.bin(value)] += self.weight
        self.weight /= 1 - 1 / self.num_recent
        self.num_values += 1
        if self.weight > _RESCALE_AT:
            self.counts = [count / self.weight for count in self.counts]
            self.weight = 1.0

    @property
    def effective_number(self) -> float:
        """So many equally weighted values would be as good: at most about twice `num_recent`."""
        keep = 1 - 1 / self.num_recent
        reach = keep**self.num_values
        return (1 + keep) / (1 - keep) * (1 - reach) / (1 + reach)

    def psi(self) -> float:
        """The index less what chance alone makes of it; may be a little below 0. 0 before the first value."""
        total = sum(self.counts)
        if not total:
            return 0.0
        number, bins = self.effective_number, len(self.counts)
        before = [
            max(MIN_SHARE, _smoothed(share, self.reference.num_values, bins))
            for share in self.reference.shares
        ]
        lately = [_smoothed(count / total, number, bins) for count in self.counts]
        index = sum((q - p) * log(q / p) for p, q in zip(before, lately, strict=True))
        return index - (bins - 1) * (1 / number + 1 / self.reference.num_values)


def _smoothed(share: float, number: float, bins: int) -> float:
    return (share * number + PSEUDO_COUNT) / (number + PSEUDO_COUNT * bins)
