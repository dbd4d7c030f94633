"""The recent offers that the controller solves over: bounded in number, thinned when they come fast, aged when slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from router.demand import Demand, demand
from router.offer import ArmOffer, Metric, Offer, Spend
from router.staircase import Staircase, staircase

MAX_AGE_S: Final = 900.0
MIN_OFFERS: Final = 50
"""Older offers than MAX_AGE_S are dropped, but these many are always kept: an old guess is better than none."""

_Entry = tuple[float, Offer, Staircase]


class OfferWindow:
    """The last `max_offers` offers, or one in k of them, so that the window is never shorter than `min_span_s`."""

    def __init__(self, metric: Metric, *, max_offers: int, min_span_s: float, spread: float) -> None:
        self._metric = metric
        self._min_span_s = min_span_s
        self._spread = spread
        self._entries: deque[_Entry] = deque(maxlen=max_offers)
        self._num_skipped = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, now: float, offer: Offer, *, requests_per_second: float) -> None:
        """Take an offer in, unless offers come so fast that this one is left out."""
        assert self._entries.maxlen is not None
        stride = int(requests_per_second * self._min_span_s / self._entries.maxlen)
        self._num_skipped += 1
        if self._num_skipped >= stride:
            self._num_skipped = 0
            self._entries.append((now, offer, staircase(offer, self._metric)))

    def demand(self, now: float) -> Demand | None:
        """The demand of what is in the window at `now`; None where λ makes no difference to it."""
        while len(self._entries) > MIN_OFFERS and self._entries[0][0] < now - MAX_AGE_S:
            self._entries.popleft()
        return demand([entry[2] for entry in self._entries], spread=self._spread)

    def plain(self) -> dict[str, Any]:
        """The window as numbers and lists, for JSON."""
        return {"num_skipped": self._num_skipped, "offers": [_plain(*entry) for entry in self._entries]}

    def restore(self, plain: dict[str, Any], *, shift_s: float) -> None:
        """Become what `plain` described, on a clock that reads `shift_s` more."""
        self._num_skipped = int(plain["num_skipped"])
        self._fill((at + shift_s, _offer(*rest)) for at, *rest in plain["offers"])

    def repriced(self, other: OfferWindow) -> None:
        """Take the offers of another window, whatever its metric, size and spread."""
        self._fill((at, offer) for at, offer, _ in other._entries)

    def _fill(self, offers: Iterable[tuple[float, Offer]]) -> None:
        self._entries.extend((at, offer, staircase(offer, self._metric)) for at, offer in offers)


def _plain(at: float, offer: Offer, _: Staircase) -> list[Any]:
    arms = [
        [arm.success_probability, arm.expected.cost, arm.expected.engine_seconds, arm.expected.full_share]
        for arm in offer.arms
    ]
    return [at, offer.quality_floor, arms]


def _offer(quality_floor: float, arms: list[list[float]]) -> Offer:
    return Offer(
        arms=tuple(
            ArmOffer(
                success_probability=p,
                expected=Spend(cost=cost, engine_seconds=seconds, full_share=full_share),
            )
            for p, cost, seconds, full_share in arms
        ),
        quality_floor=quality_floor,
    )
