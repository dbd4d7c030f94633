"""Whether an arm's probabilities may be believed at all: its calibration error, held out at first, of late after that.

An arm fails at `MAX_ERROR` and passes again below `CLEAR_ERROR`, so that the gate does not flutter. Both are judgement:
an error of 0.1 is of the order of what going up gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from router.calibration_log import CalibrationPeriod

MAX_ERROR: Final = 0.10
CLEAR_ERROR: Final = 0.05
MIN_OUTCOMES: Final = 200
"""Fewer recent outcomes say less than the held-out error."""


class CalibrationGate:
    """The gates of all arms.

    Args:
        held_out: each arm's expected calibration error on outcomes that its model had not seen. An arm that is not
            named passes until its outcomes speak against it.
    """

    def __init__(self, held_out: Mapping[str, float]) -> None:
        self._failed = {arm for arm, error in held_out.items() if error >= MAX_ERROR}
        self._proven: set[str] = set()

    @property
    def failed(self) -> frozenset[str]:
        """The arms whose probabilities do not hold."""
        return frozenset(self._failed)

    @property
    def proven(self) -> frozenset[str]:
        """The arms whose recent outcomes say that their probabilities do hold."""
        return frozenset(self._proven)

    def restore(self, failed: Iterable[str]) -> None:
        """Go on with these."""
        self._failed = set(failed)

    def judge(self, arm: str, recent: Iterable[tuple[float, float]]) -> None:
        """Look at an arm's last forecasts and outcomes; what chance alone makes of the error is taken off it."""
        sums = CalibrationPeriod(began=0.0)
        for probability, success in recent:
            sums.add(probability, success)
        if sums.num_outcomes < MIN_OUTCOMES or sums.error is None or sums.noise is None:
            return self._proven.discard(arm)
        error = sums.error - sums.noise
        if error >= MAX_ERROR:
            self._failed.add(arm)
        elif error < CLEAR_ERROR:
            self._failed.discard(arm)
        return self._proven.add(arm) if error < CLEAR_ERROR else self._proven.discard(arm)
