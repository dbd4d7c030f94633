"""Keeps the budget while the gateway runs: hears of every decision and its end, ticks, and saves what it has learned.

The arithmetic is `router.budget`'s. Here are its clock, its task and its file. Everything but the writing of the file
happens in the event loop, in well under a millisecond a tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from router.budget import (
    MIN_REQUESTS_PER_SECOND,
    WARM_OFFERS,
    BudgetController,
    BudgetState,
    StateMismatchError,
)
from router.budget_config import CONSERVATIVE_ALLOWANCE, Mode
from router.decision import Decision
from router.offer import Spend
from router.pricing import Pricing
from serving.budget_settings import BudgetSettings
from serving.gateway.state_file import StateFile
from serving.gateway.ticking import Ticking
from serving.telemetry.budget_series import BudgetSeries

SAVE_EVERY_S: Final = 5.0
NUM_REMEMBERED: Final = 200.0
"""An arm's expected seconds are the mean over about so many of its last answers."""

_log = logging.getLogger(__name__)


class BudgetKeeper(Ticking):
    """The budget of one gateway process. Entered, it ticks and saves until it is left.

    Args:
        configured: the `[budget]` node. A change made while the gateway ran (`change`) outlives a restart, unless the
            node itself was changed meanwhile: whoever spoke last is obeyed.
        file: where the state is kept.
        series: the metrics.
        monotonic: seconds, on a clock that never runs back.
        wall_clock: Unix time; says how long the gateway was away.
    """

    def __init__(
        self,
        configured: BudgetSettings,
        file: StateFile,
        series: BudgetSeries,
        *,
        monotonic: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._configured = configured
        super().__init__(
            file, save_every_s=SAVE_EVERY_S, on_fault="the budget's tick failed; λ stays where it is"
        )
        self._series = series
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._engine_seconds: dict[str, float] = {}
        self._num_answers: dict[str, float] = {}
        self._terms = configured
        self._controller = self._new_controller()
        self._is_conservative = False
        self._restore()
        self._settle()

    @property
    def terms(self) -> BudgetSettings:
        """What is in force."""
        return self._terms

    @property
    def state(self) -> BudgetState | None:
        """What the controller said last; None where nothing is held."""
        return self._controller.state if self._controller else None

    @property
    def pricing(self) -> Pricing:
        """What compute costs now."""
        return self._pricing

    @property
    def target_per_request(self) -> float | None:
        """What a request may take on average; None where the controller holds nothing."""
        state = self.state
        if state is None or state.mode is not Mode.AUTO:
            return None
        if not state.metric.is_per_hour:
            return state.target
        return state.target / 3600 / max(state.requests_per_second, MIN_REQUESTS_PER_SECOND)

    def set_conservative(self, is_conservative: bool) -> None:
        """Whether forecasts are in doubt: the target is raised, or, where nothing is held, λ lowered."""
        if self._controller is not None:
            self._controller.set_conservative(is_conservative)
        if is_conservative is not self._is_conservative:
            self._is_conservative, self._is_saved = is_conservative, False
            self.tick()

    def change(self, terms: BudgetSettings) -> None:
        """Put other terms in force, at once. λ goes on from where it is, where it still means the same."""
        config = terms.config()
        before, self._terms = self._terms, terms
        if config is None or self._controller is None:
            self._controller = self._new_controller()
        else:
            self._controller.configure(config)
        if self._controller is not None:
            self._controller.set_conservative(self._is_conservative)
        if before.metric is not terms.metric:
            self._series.forget()
        self._is_saved = False
        self.tick()

    def decided(self, decision: Decision) -> None:
        """A request was decided; to be told once a request, of its first decision."""
        if self._controller is None:
            return
        self._controller.observe_decision(self._monotonic(), decision.offer, chosen=decision.position)
        self._is_saved = False
        if self._controller.state.num_offers < WARM_OFFERS:
            self.tick()  # λ comes from nowhere: a burst must not be decided at it while the first second passes

    def ended(self, arm: str | None, *, expected: Spend, realised: Spend) -> None:
        """A request ended.

        Args:
            arm: the one that answered, by its only attempt; None where it was otherwise.
            expected: of the decision that `decided` was told of.
            realised: what all attempts took.
        """
        if arm is not None:
            self._observe_seconds(arm, realised.engine_seconds)
        if self._controller is not None:
            self._controller.observe_spend(self._monotonic(), expected=expected, realised=realised)
            self._is_saved = False

    def tick(self) -> None:
        """Let the controller set λ."""
        if self._controller is not None:
            self._controller.tick(self._monotonic())
        self._settle()

    async def _turn(self) -> None:
        self.tick()

    def _settle(self) -> None:
        """Make what the controller says the price of the next requests, and show it."""
        state = self.state
        usual = self._terms.initial_price if state is None else state.price_of_compute
        is_lowered = self._is_conservative and state is None
        self._pricing = Pricing(
            price_of_compute=usual / CONSERVATIVE_ALLOWANCE if is_lowered else usual,
            metric=self._terms.metric,
            engine_seconds=self._engine_seconds,
            spread=0.0 if state is None else state.spread,
            undoubted_price_of_compute=usual if is_lowered else None,
        )
        self._series.show(
            self._terms.metric,
            price_of_compute=self._pricing.price_of_compute,
            quality_floor=self._terms.quality_floor,
            state=state,
        )

    def _observe_seconds(self, arm: str, seconds: float) -> None:
        num = self._num_answers[arm] = min(self._num_answers.get(arm, 0.0) + 1, NUM_REMEMBERED)
        mean = self._engine_seconds.get(arm, 0.0)
        self._engine_seconds[arm] = mean + (seconds - mean) / num

    def _new_controller(self) -> BudgetController | None:
        config = self._terms.config()
        return None if config is None else BudgetController(config, now=self._monotonic())

    def _plain(self) -> dict[str, Any]:
        controller = self._controller
        return {
            "saved_at": self._wall_clock(),
            "configured": self._configured.model_dump(mode="json"),
            "terms": self._terms.model_dump(mode="json"),
            "engine_seconds": self._engine_seconds,
            "num_answers": self._num_answers,
            "controller": None if controller is None else controller.plain(self._monotonic()),
        }

    def _restore(self) -> None:
        """Take up what was saved, as far as it belongs to these terms; the rest begins anew, and the log says why."""
        saved = self._file.read()
        if saved is None:
            return
        try:
            if saved["configured"] == self._configured.model_dump(mode="json"):
                self._terms = BudgetSettings.model_validate(saved["terms"])
            self._engine_seconds.update(_numbers(saved["engine_seconds"]))
            self._num_answers.update(_numbers(saved["num_answers"]))
            self._controller = self._restored_controller(saved)
        except (StateMismatchError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            _log.warning("the budget's saved state does not fit and begins anew: %s", reason)
            self._controller = self._new_controller()

    def _restored_controller(self, saved: Mapping[str, Any]) -> BudgetController | None:
        config = self._terms.config()
        if config is None or saved["controller"] is None:
            return self._new_controller()
        # The clock of offers and rates went on while the gateway was away; one that was set back did not run.
        away_s = max(0.0, self._wall_clock() - saved["saved_at"])
        return BudgetController.restored(saved["controller"], config, now=self._monotonic() - away_s)


def _numbers(saved: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(number) for name, number in saved.items()}
