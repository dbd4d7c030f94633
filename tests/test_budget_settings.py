"""The `[budget]` node: what may be left out, what it resolves to, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from router.budget_config import BudgetConfig, Mode
from router.offer import Metric
from router.plan import Winner
from serving.budget_settings import PRICE_OF_MONEY, BudgetSettings


def test_without_a_target_nothing_is_held() -> None:
    """λ prices money then, at the shipped price or at the one that is named."""
    assert BudgetSettings().config() is None
    assert (BudgetSettings().metric, BudgetSettings().initial_price) == (
        Metric.COST_PER_REQUEST,
        PRICE_OF_MONEY,
    )
    assert BudgetSettings(price_of_compute=7.0).initial_price == 7.0


def test_the_whole_node_becomes_the_controllers_terms() -> None:
    """Nothing that is said is lost on the way."""
    node = BudgetSettings(
        metric=Metric.FULL_SHARE,
        target=0.3,
        quality_floor=0.8,
        winner=Winner.BUDGET,
        mode=Mode.MANUAL,
        price_of_compute=0.2,
    )
    assert node.config() == BudgetConfig(
        metric=Metric.FULL_SHARE,
        target=0.3,
        quality_floor=0.8,
        winner=Winner.BUDGET,
        mode=Mode.MANUAL,
        price_of_compute=0.2,
    )


@pytest.mark.parametrize(
    ("metric", "begins"),
    [
        (Metric.FULL_SHARE, 0.0),
        (Metric.ENGINE_SECONDS_PER_REQUEST, 0.0),
        (Metric.COST_PER_REQUEST, PRICE_OF_MONEY),
        (Metric.COST_PER_HOUR, PRICE_OF_MONEY),
    ],
)
def test_where_the_controllers_price_begins(metric: Metric, begins: float) -> None:
    """A price of money says nothing about other units, of which the controller begins with the likeliest arm."""
    assert BudgetSettings(metric=metric, target=0.5).initial_price == begins


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "full_share"}, "`price_of_compute` is needed"),
        ({"metric": "full_share", "target": 0.3, "mode": "manual"}, "`price_of_compute` is needed"),
        ({"metric": "full_share", "target": 0.3, "mode": "dry_run"}, "`price_of_compute` is needed"),
        ({"metric": "full_share", "target": 1.5}, "at most 1 for `full_share`"),
        ({"target": -1.0}, "`target` is -1.0; it must be"),
        ({"target": float("nan")}, "finite"),
        ({"mode": "manual"}, "need a `target`"),
        ({"quality_floor": 0.5}, "need a `target`"),
        ({"metric": "money"}, "'full_share', 'cost_per_request', 'cost_per_hour' or"),
        ({"target": 0.3, "winner": "nobody"}, "'quality_floor' or 'budget'"),
        ({"target": 0.3, "price_of_compute": -1.0}, "greater than or equal to 0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(wrong: dict[str, Any], message: str) -> None:
    """The message says what would be right."""
    with pytest.raises(ValidationError) as refused:
        BudgetSettings.model_validate(wrong)
    assert message in str(refused.value)
