"""The budget's Prometheus series. All carry the metric that is held as a label, since it is their unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from router.budget import BudgetState
from router.offer import Metric

GAUGES: Final[Mapping[str, str]] = {
    "price_of_compute": "λ in force, in probability of success per unit of the metric.",
    "target": "What is to be held; raised in conservative mode.",
    "expected": "What λ in force is expected to make of the metric.",
    "realised": "The metric over the last requests; per hour, over the last minutes.",
    "debt": "Taken above the target, summed over requests, and still to be repaid.",
    "price_ratio": "Realised over expected, per request.",
    "advised_price_of_compute": "λ as the controller would have it.",
    "quality_floor": "The mean probability of success that may not be undercut.",
    "expected_quality": "The mean probability of success at λ in force.",
    "is_infeasible": "1 while no λ takes as little as the target.",
    "is_slack": "1 while all that is worth buying takes less than the target.",
    "is_floor_binding": "1 while the target asks for less quality than the floor; the configured winner has its way.",
    "is_floor_infeasible": "1 while no λ reaches the floor.",
    "is_conservative": "1 while forecasts are in doubt.",
}


class BudgetSeries:
    """Shows a budget's state as gauges."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = {
            name: Gauge(f"tierwise_budget_{name}", text, ["metric"], registry=registry)
            for name, text in GAUGES.items()
        }

    def forget(self) -> None:
        """Drop what was shown, so that a metric that is no longer held is not shown for ever."""
        for gauge in self._gauges.values():
            gauge.clear()

    def show(
        self, metric: Metric, *, price_of_compute: float, quality_floor: float, state: BudgetState | None
    ) -> None:
        """Show λ, and where something is held, all that the controller says of it; what is not known is not shown."""
        values: dict[str, float | None] = {"price_of_compute": price_of_compute}
        if state is not None:
            values |= {
                "target": state.target,
                "expected": state.expected,
                "realised": state.realised,
                "debt": state.debt,
                "price_ratio": state.price_ratio,
                "advised_price_of_compute": state.advised_price_of_compute,
                "quality_floor": quality_floor,
                "expected_quality": state.expected_quality,
                "is_infeasible": float(state.is_budget_infeasible),
                "is_slack": float(state.is_budget_slack),
                "is_floor_binding": float(state.is_floor_binding),
                "is_floor_infeasible": float(state.is_floor_infeasible),
                "is_conservative": float(state.is_conservative),
            }
        for name, value in values.items():
            if value is not None:
                self._gauges[name].labels(metric.value).set(value)
