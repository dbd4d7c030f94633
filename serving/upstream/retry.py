"""How many retries the fleet may afford: a share of its requests, so that an outage never multiplies the load."""

from __future__ import annotations


class RetryBudget:
    """A token bucket that requests fill and retries empty. Pure: time is a parameter.

    Each request adds `share`, each second adds `floor_per_s` so that a quiet gateway can retry too, and the bucket
    holds no more than `max_tokens`. It starts full. (After Finagle's RetryBudget.)
    """

    def __init__(self, *, share: float = 0.1, floor_per_s: float = 0.5, max_tokens: float = 10.0) -> None:
        self._share = share
        self._floor_per_s = floor_per_s
        self._max_tokens = max_tokens
        self._tokens = max_tokens
        self._filled_at: float | None = None

    def note_request(self, now: float) -> None:
        """A client's request arrived; its retries do not count as requests."""
        self._fill(now, self._share)

    def try_spend(self, now: float) -> bool:
        """Take one retry out of the budget; False, and nothing taken, where less than one is left."""
        self._fill(now, 0.0)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self, now: float, tokens: float) -> None:
        if self._filled_at is not None:
            tokens += self._floor_per_s * max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(self._max_tokens, self._tokens + tokens)
