"""Keeps the evidence while the gateway runs: hears of requests and grades, takes stock every second, saves, and tells.

The arithmetic is `router.evidence`'s. Here are its clock, its task, its file and its log. Maps are fitted in a thread,
from a copy; all else happens in the event loop, a tick in about a millisecond, what is saved copied in a few.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from router.decision import Decision, Reason
from router.difficulty import Assessment, Forecast
from router.doubt import Doubt, DoubtKind, Ration
from router.evidence import Evidence, EvidenceState, Grade
from router.recalibration import fitted
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.evidence_view import shown
from serving.gateway.recent import Recent
from serving.gateway.state_file import StateFile
from serving.gateway.ticking import Ticking
from serving.telemetry.evidence_series import EvidenceSeries

SAVE_EVERY_S: Final = 30.0
MAX_REMEMBERED: Final = 20_000
"""Requests whose grade has been heard; a grade that is changed later does not count twice."""

_log = logging.getLogger(__name__)


class EvidenceKeeper(Ticking):
    """The evidence of one gateway process. Entered, it takes stock and saves until it is left.

    Args:
        begin: makes evidence that knows nothing yet.
        budget: is told whether to be conservative.
        file: where the state is kept.
        series: the metrics.
        wall_clock: Unix time; hours are told by it.
    """

    def __init__(
        self,
        begin: Callable[[], Evidence],
        budget: BudgetKeeper,
        file: StateFile,
        series: EvidenceSeries,
        *,
        wall_clock: Callable[[], float],
    ) -> None:
        self._begin = begin
        self._budget = budget
        super().__init__(
            file,
            save_every_s=SAVE_EVERY_S,
            on_fault="taking stock of the evidence failed; forecasts stay as they are",
        )
        self._series = series
        self._wall_clock = wall_clock
        self._graded: Recent[str, None] = Recent(MAX_REMEMBERED)
        self._ration = Ration()
        self._graded_at = 0.0
        self._evidence = self._restored()
        self._doubts: tuple[DoubtKind, ...] = ()
        self._state = self._evidence.check()
        self.tick()
        self._series.show_calibration(self._evidence.logs)
        self._series.show_maps(self._evidence.maps)

    @property
    def state(self) -> EvidenceState:
        """What was found when stock was last taken."""
        return self._state

    def calibrated(self, forecasts: Mapping[str, Forecast]) -> Mapping[str, Forecast]:
        """The model's forecasts in the light of recent outcomes."""
        return self._evidence.calibrated(forecasts)

    def doubt(self) -> Doubt:
        """What the next request is decided under."""
        target = self._budget.target_per_request
        if target is None:
            return Doubt(kinds=self._doubts)
        self._ration.fill(target)
        return Doubt(kinds=self._doubts, max_price=self._ration.left or 0.0)

    def decided(self, assessment: Assessment, decision: Decision) -> None:
        """A request was decided; to be told once a request, of its first decision."""
        self._evidence.observe_request(assessment)
        if decision.reason is Reason.OUT_OF_DISTRIBUTION:
            self._ration.take(decision.metric.price(decision.expected))
        self._is_saved = False

    def graded(self, request_id: str, artifact_version: str, grade: Grade) -> None:
        """A request was graded. Of a request the first grade counts, and none of one that another model decided."""
        if artifact_version != self._evidence.version or request_id in self._graded:
            return
        self._graded.put(request_id, None)
        self._graded_at = max(self._graded_at, self._wall_clock())
        self._evidence.observe_grade(self._graded_at, grade)
        self._series.show_calibration(self._evidence.logs)
        self._is_saved = False

    def tick(self) -> None:
        """Take stock, and be conservative where there is reason to."""
        self._state = self._evidence.check()
        self._series.show(self._state)
        if self._state.doubts != self._doubts:
            self._doubts = self._state.doubts
            _announce(self._state)
        self._budget.set_conservative(bool(self._doubts))

    async def refit(self) -> None:
        """Fit the maps anew where there are outcomes enough that they have not seen."""
        if self._evidence.needs_refit:
            self._evidence.end_refit(await asyncio.to_thread(fitted, self._evidence.begin_refit()))
            self._series.show_maps(self._evidence.maps)

    async def _turn(self) -> None:
        self.tick()
        await self.refit()

    def _plain(self) -> dict[str, Any]:
        return self._evidence.plain()

    def _restored(self) -> Evidence:
        """What was saved, where it belongs to this model; else a new beginning, and the log says why."""
        evidence, saved = self._begin(), self._file.read()
        if saved is None:
            return evidence
        try:
            evidence.restore(saved)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            _log.warning("the saved evidence does not fit and begins anew: %s", reason)
            return self._begin()
        return evidence

    def shown(self) -> dict[str, Any]:
        """For an operator."""
        return shown(self._state, self._evidence)


def _announce(state: EvidenceState) -> None:
    if not state.doubts:
        _log.info("conservative mode is off: forecasts hold again")
        return
    alarms = [f"{reason.kind.value} {reason.name} ({reason.value:.2f})" for reason in state.drift.reasons]
    gates = [f"the probabilities of {arm}" for arm in sorted(state.failed_gates)]
    _log.warning("conservative mode is on: %s", ", ".join((*alarms, *gates)))
