"""What compute costs when a request is decided, and what chance adds to it. Both are parameters of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from router.offer import Metric
from router.staircase import banded


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The price of compute in force, and what it is a price of."""

    price_of_compute: float
    """λ, in probability of success per unit of the metric; 0 takes the likeliest arm at any price."""
    metric: Metric = Metric.COST_PER_REQUEST
    engine_seconds: Mapping[str, float] = field(default_factory=dict)
    """What each arm is expected to take, by name; 0 where it is not known."""
    spread: float = 0.0
    """Relative width of the band from which a request draws its λ (`router.staircase.banded`); 0 for none."""
    undoubted_price_of_compute: float | None = None
    """What λ would be without the doubt that has lowered it (`router.doubt`); None where none has."""

    def drawn(self, uniform: float) -> float:
        """The λ of the request that drew `uniform`."""
        return (
            banded(self.price_of_compute, spread=self.spread, uniform=uniform)
            if self.spread
            else self.price_of_compute
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The chance in one decision: each uniform in [0, 1). The same draws give the same decision."""

    price: float = 0.5
    """Where in the band its λ lies; 0.5 is λ itself."""
    exploration: float = 1.0
    """Below the exploration share it chooses an arm by lot; 1 never does."""


NO_CHANCE: Final = Draws()
