"""The budget controller: holds a metric at its target by moving λ, the price of compute. Owns no clock, task or file.

Events come in with their time, and a tick, about once a second, sets λ. On each tick

1. the window of recent offers gives demand, the mean price of a request as a function of λ (`router.demand`);
2. the target of a request is `(target − debt / horizon) / ratio`: the debt integrates what was taken above the target
   and is repaid over a horizon of requests; the ratio is realised over expected (`router.traffic.Mispricing`);
3. the least λ that meets it is found exactly, within what the quality floor leaves (`router.plan`);
4. ln λ moves there, no faster than `max_log_step_per_s`.

A decision is booked at its expected price and corrected when its request ends, so what is in flight is accounted for.
The debt is confined to what λ can still repay (`router.debt`): what no λ could prevent does not pile up. Without news λ
rests.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any, Final, Self

from router.budget_config import BudgetConfig, Mode
from router.debt import Debt, Reach
from router.demand import Demand
from router.offer import Metric, Offer, Spend
from router.plan import Bounds, Plan, plan
from router.traffic import ArrivalRate, DecayedRate, Mispricing
from router.window import OfferWindow

STATE_SCHEMA: Final = 1

WARM_OFFERS: Final = 30
"""Until the window holds as many, λ jumps instead of gliding: it comes from nowhere."""
MAX_GAP_S: Final = 5.0
"""A longer gap between two ticks moves λ no further than this one."""
MIN_REQUESTS_PER_SECOND: Final = 1 / 3600
"""Traffic slower than that is taken for it, so that an hourly target has a share for each request."""
REALISED_RATE_S: Final = 300.0
"""Time constant of the realised cost per hour that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """What the controller says after a tick. Amounts are in the metric's unit."""

    at: float
    """The last tick that had news."""
    mode: Mode
    metric: Metric
    target: float
    """As configured, or as raised by conservative mode."""
    price_of_compute: float
    """λ in force."""
    advised_price_of_compute: float
    """λ as the controller would have it: the same in `auto`."""
    spread: float
    expected: float | None
    """What λ in force is expected to make of the metric; None before there was anything to decide."""
    expected_quality: float | None
    """The mean probability of success at λ in force."""
    realised: float | None
    """Mean over about the last `max_offers` requests; per hour, over the last minutes."""
    debt: float
    """Taken above the target, summed over requests, and still to be repaid."""
    price_ratio: float
    """Realised over expected."""
    requests_per_second: float
    num_offers: int
    is_conservative: bool
    is_budget_infeasible: bool = False
    is_budget_slack: bool = False
    is_floor_binding: bool = False
    is_floor_infeasible: bool = False
    """As in `router.plan.Plan`."""


class BudgetController:
    """The state machine. Every method is given its time, on one clock that never runs back."""

    def __init__(self, config: BudgetConfig, *, now: float) -> None:
        self._config = config
        self._is_conservative = False
        self._price = config.price_of_compute
        self._begin_account()
        self._arrivals = ArrivalRate()
        self._window = _window(config)
        self._ticked_at = now
        self._has_news = True
        self._state = self._report(now, None, None)

    @property
    def config(self) -> BudgetConfig:
        """The terms in force."""
        return self._config

    @property
    def state(self) -> BudgetState:
        """What the last tick said."""
        return self._state

    def observe_decision(self, now: float, offer: Offer, *, chosen: int) -> None:
        """A request was decided: once a request, with the index of its arm in the offer."""
        self._arrivals.observe(now)
        if not offer.is_curtailed:
            rate = self._arrivals.per_second(now)
            self._window.add(now, offer, requests_per_second=rate)
        self._book(self._config.metric.price(offer.arms[chosen].expected))
        if not self._config.metric.is_per_hour:
            self._book(-self._target)
        self._has_news = True

    def observe_spend(self, now: float, *, expected: Spend, realised: Spend) -> None:
        """A request ended, however it ended: what its arm was expected to take, and what all its attempts took."""
        metric = self._config.metric
        self._mispricing.observe(expected=metric.price(expected), realised=metric.price(realised))
        self._realised_rate.observe(now, metric.price(realised))
        self._book(metric.price(realised) - metric.price(expected))
        self._has_news = True

    def tick(self, now: float) -> BudgetState:
        """Set λ. Without news since the last tick nothing changes, however long that is."""
        gap = max(0.0, now - self._ticked_at)
        self._ticked_at = now
        if self._config.metric.is_per_hour:
            self._book(-self._target * gap / 3600)
        if not self._has_news:
            return self._state
        self._has_news = False
        demand = self._window.demand(now)
        made = self._plan(demand, now) if demand else None
        if made is not None:
            self._move(made, min(gap, MAX_GAP_S))
        self._state = self._report(now, demand, made)
        return self._state

    def configure(self, config: BudgetConfig) -> None:
        """Change the terms. λ goes on from the one in force; a new target or metric begins a new account."""
        before, in_force = self._config, self._in_force
        self._config = config
        if config.metric is not before.metric or config.target != before.target:
            self._begin_account()
        if config.mode is not before.mode:
            self._debt = Debt()
        if config.metric is not before.metric:
            self._price = config.price_of_compute
        elif config.mode is not Mode.DRY_RUN:
            self._price = in_force
        window = _window(config)
        window.repriced(self._window)
        self._window = window
        self._has_news = True

    def set_conservative(self, is_conservative: bool) -> None:
        """Enter or leave conservative mode: whether forecasts are in doubt (`router.drift`)."""
        self._has_news |= is_conservative is not self._is_conservative
        self._is_conservative = is_conservative

    @property
    def _target(self) -> float:
        """Of a request, or of an hour."""
        raised = self._config.target * (self._config.conservative_allowance if self._is_conservative else 1)
        return min(raised, 1.0) if self._config.metric is Metric.FULL_SHARE else raised

    @property
    def _in_force(self) -> float:
        is_fixed = self._config.mode in {Mode.MANUAL, Mode.DRY_RUN}
        return self._config.price_of_compute if is_fixed else self._price

    def _begin_account(self) -> None:
        self._debt = Debt()
        self._mispricing = Mispricing(float(self._config.max_offers))
        self._realised_rate = DecayedRate(REALISED_RATE_S)

    def _book(self, amount: float) -> None:
        if self._config.mode is Mode.AUTO:
            self._debt.owed += amount

    def _plan(self, demand: Demand, now: float) -> Plan:
        config, reach = self._config, self._reach(now)
        ratio = self._mispricing.ratio(reach.per_request)
        bounds = Bounds(
            quality_floor=config.quality_floor,
            winner=config.winner,
            least=config.min_price_of_compute,
            greatest=config.max_price_of_compute,
        )
        made = plan(
            demand,
            bounds,
            target=reach.per_request / ratio,
            corrected_target=(reach.per_request - self._debt.correction(reach)) / ratio,
        )
        self._debt.confine(
            reach, least_price=ratio * made.least_price, greatest_price=ratio * made.greatest_price
        )
        return made

    def _reach(self, now: float) -> Reach:
        config, rate = self._config, self._rate(now)
        per_second = self._target / 3600 if config.metric.is_per_hour else None
        return Reach(
            per_request=self._target if per_second is None else per_second / rate,
            horizon=max(config.repay_requests, config.repay_s * rate),
            max_correction_share=config.max_correction_share,
            per_second=per_second,
        )

    def _rate(self, now: float) -> float:
        return max(MIN_REQUESTS_PER_SECOND, self._arrivals.per_second(now))

    def _move(self, made: Plan, gap: float) -> None:
        if self._config.mode is Mode.MANUAL:
            self._price = self._config.price_of_compute
        elif self._config.mode is not Mode.FROZEN:
            is_warm = len(self._window) >= WARM_OFFERS and self._price > 0 and made.price_of_compute > 0
            step = self._config.max_log_step_per_s * gap
            self._price = (
                _glided(self._price, made.price_of_compute, step) if is_warm else made.price_of_compute
            )

    def _report(self, now: float, demand: Demand | None, made: Plan | None) -> BudgetState:
        config = self._config
        ratio = self._mispricing.ratio(self._reach(now).per_request)
        per_target = 3600 * self._rate(now) if config.metric.is_per_hour else 1.0
        is_fixed = config.mode in {Mode.FROZEN, Mode.MANUAL}
        return BudgetState(
            at=now,
            mode=config.mode,
            metric=config.metric,
            target=self._target,
            price_of_compute=self._in_force,
            advised_price_of_compute=made.price_of_compute if made and is_fixed else self._price,
            spread=config.spread,
            expected=ratio * demand.price_at(self._in_force) * per_target if demand else None,
            expected_quality=demand.probability_at(self._in_force) if demand else None,
            realised=self._realised(now),
            debt=self._debt.owed,
            price_ratio=ratio,
            requests_per_second=self._arrivals.per_second(now),
            num_offers=len(self._window),
            is_conservative=self._is_conservative,
            is_budget_infeasible=made is not None and made.is_budget_infeasible,
            is_budget_slack=made is not None and made.is_budget_slack,
            is_floor_binding=made is not None and made.is_floor_binding,
            is_floor_infeasible=made is not None and made.is_floor_infeasible,
        )

    def _realised(self, now: float) -> float | None:
        if self._config.metric.is_per_hour and self._mispricing.weight:
            return 3600 * self._realised_rate.per_second(now)
        return self._mispricing.mean

    def plain(self, now: float) -> dict[str, Any]:
        """What outlives a restart, as numbers, strings and lists. The terms are not in it."""
        return {
            "schema": STATE_SCHEMA,
            "metric": self._config.metric.value,
            "target": self._config.target,
            "saved_at": now,
            "price_of_compute": self._price,
            "debt": self._debt.owed,
            "is_conservative": self._is_conservative,
            "ticked_at": self._ticked_at,
            "has_news": self._has_news,
            "mispricing": asdict(self._mispricing),
            "arrivals": asdict(self._arrivals),
            "realised_rate": asdict(self._realised_rate),
            "window": self._window.plain(),
            "state": asdict(self._state)
            | {"metric": self._state.metric.value, "mode": self._state.mode.value},
        }

    @classmethod
    def restored(cls, plain: dict[str, Any], config: BudgetConfig, *, now: float) -> Self:
        """The controller that `plain` was taken from, as if the clock had not run in between.

        Where the target is not the one it was saved under, λ goes on and the debt is forgiven.

        Raises:
            StateMismatchError: it was saved by another version, or for another metric. Begin anew.
        """
        for name, wanted in (("schema", STATE_SCHEMA), ("metric", config.metric.value)):
            if plain.get(name) != wanted:
                raise StateMismatchError(f"the saved state has {name} {plain.get(name)!r}, not {wanted!r}")
        shift_s = now - plain["saved_at"]
        made = cls(config, now=plain["ticked_at"] + shift_s)
        made._price = plain["price_of_compute"]
        made._debt = Debt(plain["debt"] if plain["target"] == config.target else 0.0)
        made._is_conservative = plain["is_conservative"]
        made._has_news = plain["has_news"]
        made._mispricing = Mispricing(**plain["mispricing"])
        made._arrivals = ArrivalRate(*(DecayedRate(**plain["arrivals"][name]) for name in ("slow", "fast")))
        made._realised_rate = DecayedRate(**plain["realised_rate"])
        for rate in (made._arrivals.slow, made._arrivals.fast, made._realised_rate):
            rate.move(shift_s)
        made._window.restore(plain["window"], shift_s=shift_s)
        made._state = _state(plain["state"], shift_s=shift_s)
        return made


class StateMismatchError(Exception):
    """A saved state does not belong to this controller."""


def _window(config: BudgetConfig) -> OfferWindow:
    return OfferWindow(
        config.metric, max_offers=config.max_offers, min_span_s=config.min_span_s, spread=config.spread
    )


def _glided(price: float, wanted: float, max_log_step: float) -> float:
    """`price` moved towards `wanted`, by no more than so much of its logarithm."""
    distance = log(wanted / price)
    return (
        wanted
        if abs(distance) <= max_log_step
        else price * exp(max_log_step if distance > 0 else -max_log_step)
    )


def _state(plain: dict[str, Any], *, shift_s: float) -> BudgetState:
    named = {"metric": Metric(plain["metric"]), "mode": Mode(plain["mode"]), "at": plain["at"] + shift_s}
    return BudgetState(**(plain | named))
