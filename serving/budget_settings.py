"""The `[router]` and `[budget]` nodes of the settings: how arms are chosen, and what is to be held."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from router.budget_config import BudgetConfig, Mode
from router.offer import Metric
from router.plan import Winner
from serving.engines.base import SettingsNode
from serving.escalation_settings import EscalationSettings

PRICE_OF_MONEY: Final = 500.0
"""λ where λ prices money and nobody has said anything: with the shipped prices the heuristic
sends small talk to the fast tier and proofs to the full one."""


class RouterSettings(SettingsNode):
    """The choice among arms, request by request."""

    artifact: str = "auto"
    """The fitted difficulty model: a registry reference (`router@canary`, `name:version`) or a path. `auto` takes
    router@stable where that was fitted on these tiers' models, else the heuristic, which `heuristic` names."""
    min_quality: float = Field(0.0, ge=0, le=1)
    """The least probability of success to accept from an arm while another reaches it. `x-tierwise-min-quality` asks
    for more."""
    exploration_share: float = Field(0.0, ge=0, le=0.5)
    """The share of requests whose arm is drawn by lot, so that outcomes of every arm become known."""
    escalation: EscalationSettings = EscalationSettings()


class BudgetSettings(SettingsNode):
    """What is held. Without a `target` nothing is, and λ is `price_of_compute`."""

    metric: Metric = Metric.COST_PER_REQUEST
    """What λ prices and the target limits."""
    target: float | None = None
    """In the metric's unit, of this gateway's own traffic."""
    quality_floor: float = Field(0.0, ge=0, le=1)
    """The mean calibrated probability of success that may not be undercut."""
    winner: Winner = Winner.QUALITY_FLOOR
    """Who has its way where target and floor cannot both be held."""
    mode: Mode = Mode.AUTO
    """Who sets λ: `auto` the controller; `frozen` nobody; in `dry_run` and `manual` it is `price_of_compute`."""
    price_of_compute: float | None = Field(None, ge=0)
    """λ, in probability of success per unit of the metric: how much of it one unit is worth. 0 takes the likeliest arm
    at any price. With a target in `auto`, where λ begins."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        is_fixed = self.target is None or self.mode in {Mode.MANUAL, Mode.DRY_RUN}
        if is_fixed and self.price_of_compute is None and not self._prices_money:
            raise ValueError(
                f"`price_of_compute` is needed where λ is fixed and prices {self.metric.value}; or name a `target` and "
                'mode = "auto"'
            )
        if self.target is None and (self.mode is not Mode.AUTO or self.quality_floor):
            raise ValueError(
                "`mode` and `quality_floor` need a `target`; without one λ is `price_of_compute`"
            )
        self.config()
        return self

    @property
    def _prices_money(self) -> bool:
        return self.metric in {Metric.COST_PER_REQUEST, Metric.COST_PER_HOUR}

    @property
    def initial_price(self) -> float:
        """λ to begin with."""
        if self.price_of_compute is not None:
            return self.price_of_compute
        return PRICE_OF_MONEY if self._prices_money else 0.0

    def config(self) -> BudgetConfig | None:
        """The controller's terms; None where nothing is held.

        Raises:
            ValueError: they make no sense.
        """
        if self.target is None:
            return None
        return BudgetConfig(
            metric=self.metric,
            target=self.target,
            quality_floor=self.quality_floor,
            winner=self.winner,
            mode=self.mode,
            price_of_compute=self.initial_price,
        )
