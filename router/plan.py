"""The λ that a demand, a target and a quality floor ask for together, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from router.demand import TOLERANCE, Demand


class Winner(StrEnum):
    """What holds where the budget cannot be met without undercutting the quality floor."""

    QUALITY_FLOOR = "quality_floor"
    """The budget is overspent."""
    BUDGET = "budget"
    """Quality falls below the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where λ should go."""

    price_of_compute: float
    least_price: float
    """The least mean price of a request that λ may bring about: with the floor heeded, if it wins."""
    greatest_price: float
    """The greatest one."""
    is_budget_infeasible: bool
    """No λ takes as little as the target."""
    is_budget_slack: bool
    """Even the least λ takes less than the target: all that is worth buying is bought."""
    is_floor_binding: bool
    """The budget asks for a λ at which quality is below the floor; the winner has its way."""
    is_floor_infeasible: bool
    """No λ reaches the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What λ is held to, whatever the target."""

    quality_floor: float
    winner: Winner
    least: float
    greatest: float


def plan(demand: Demand, bounds: Bounds, *, target: float, corrected_target: float) -> Plan:
    """The least λ whose mean price is at most `corrected_target`, within the bounds.

    The claims about the budget are made of `target`, which holds no debt.
    """
    wanted = demand.price_of_compute_for(corrected_target)
    ceiling = demand.price_of_compute_above(bounds.quality_floor)
    is_floor_binding = wanted > ceiling
    highest = min(bounds.greatest, ceiling if bounds.winner is Winner.QUALITY_FLOOR else bounds.greatest)
    highest = max(highest, bounds.least)
    slack = TOLERANCE * target
    return Plan(
        price_of_compute=min(max(wanted, bounds.least), highest),
        least_price=demand.price_at(highest),
        greatest_price=demand.price_at(bounds.least),
        is_budget_infeasible=demand.least_price > target + slack,
        is_budget_slack=demand.greatest_price < target - slack,
        is_floor_binding=is_floor_binding,
        is_floor_infeasible=demand.probability_at(0.0) < bounds.quality_floor - TOLERANCE,
    )
