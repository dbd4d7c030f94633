"""How long one request occupies a replica, as far as can be known: the base of a truthful `retry-after`."""

from __future__ import annotations

from typing import Final

WEIGHT: Final = 0.1
"""Of the latest request in the mean: about the last twenty count."""


class ServiceTime:
    """A moving mean over finished requests, never below the mean age of those still running.

    Pure: time is a parameter.
    """

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._num_running = 0
        self._sum_begun = 0.0

    def begin(self, now: float) -> None:
        """A request begins at `now`."""
        self._num_running += 1
        self._sum_begun += now

    def end(self, begun_at: float, now: float) -> None:
        """The request that began at `begun_at` ended."""
        self._num_running -= 1
        # Rounding must not pile up over months, and whenever nothing runs the sum is known exactly.
        self._sum_begun = self._sum_begun - begun_at if self._num_running else 0.0
        took_s = now - begun_at
        self._mean_s = took_s if self._mean_s is None else self._mean_s + WEIGHT * (took_s - self._mean_s)

    def estimate(self, now: float) -> float | None:
        """Seconds for one request; None while nothing is known.

        Without the running ones, replicas that hang would go on promising the speed that they had.
        """
        if not self._num_running:
            return self._mean_s
        age_s = now - self._sum_begun / self._num_running
        return age_s if self._mean_s is None else max(self._mean_s, age_s)
