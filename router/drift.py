"""Whether the forecasts can still be trusted, and the conservative flag where they cannot. Pure: events in, state out.

Two kinds of watch. Inputs and scores of requests against how they were distributed when the model was fitted, or,
without that, over the first requests seen (`router.histogram`). And outcomes of each arm against their forecasts
(`router.outcome_test`). Each alarm has its own way back, so that the flag does not flutter: an index must fall well
below where it raised the alarm, and an arm must do as forecast over a whole stretch of new outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from router.histogram import RecentHistogram, Reference, reference
from router.outcome_test import OutcomeTest

STATE_SCHEMA: Final = 1
MAX_TOLERANCE: Final = 0.25


class DriftKind(StrEnum):
    """What drifted. A closed list: it labels metrics."""

    INPUT = "input"
    """What is asked is not what was asked."""
    SCORE = "score"
    """What is forecast is not what was forecast."""
    OUTCOME = "outcome"
    """Answers succeed less often than forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftConfig:
    """When to raise an alarm and when to end it."""

    psi_alarm: float = 0.25
    psi_clear: float = 0.1
    num_recent: float = 1000.0
    """Requests over which the index is taken, about."""
    min_requests: int = 500
    """Before so many requests no index raises an alarm."""
    num_learnt: int = 2000
    """Where there is no reference, so many first values are it."""
    tolerance: float = 0.05
    """By how much an arm may succeed less often than forecast, in probability; at most 0.25."""
    mean_outcomes_between_false_alarms: float = 20_000.0
    """At least so many outcomes, over all arms, between alarms that chance alone raises."""
    num_clear: int = 300
    """An arm that raised an alarm ends it by so many outcomes that fall short by no more than the tolerance."""

    def __post_init__(self) -> None:
        for name, is_right, rule in (
            ("psi_clear", 0 < self.psi_clear <= self.psi_alarm, "more than 0 and at most `psi_alarm`"),
            ("num_recent", self.num_recent > 1, "more than 1"),
            ("num_learnt", self.num_learnt >= 1, "at least 1"),
            ("tolerance", 0 <= self.tolerance <= MAX_TOLERANCE, f"from 0 to {MAX_TOLERANCE}"),
            (
                "mean_outcomes_between_false_alarms",
                self.mean_outcomes_between_false_alarms >= 1,
                "at least 1",
            ),
            ("num_clear", self.num_clear >= 1, "at least 1"),
        ):
            if not is_right:
                raise ValueError(f"`{name}` is {getattr(self, name)}; it must be {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReason:
    """One alarm that stands."""

    kind: DriftKind
    name: str
    """The feature, the score, or the arm."""
    value: float
    """The stability index; of outcomes, the mean by which they fall short of their forecasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftState:
    """What the monitor says."""

    reasons: tuple[DriftReason, ...]
    psi: Mapping[tuple[DriftKind, str], float]
    """By kind and name, of those that have a reference."""
    shortfalls: Mapping[str, float]
    """By arm: forecast less outcome, since the last alarm or the beginning."""

    @property
    def is_conservative(self) -> bool:
        """Whether any alarm stands."""
        return bool(self.reasons)


class DriftMonitor:
    """Watches. Knows the names it was given and the arms it is told of, and nothing of a request but numbers."""

    def __init__(
        self, config: DriftConfig, references: Mapping[tuple[DriftKind, str], Reference | None]
    ) -> None:
        self._config = config
        self._watches = {key: _Watch(config, known) for key, known in references.items()}
        self._arms: dict[str, _ArmWatch] = {}

    def observe_request(self, kind: DriftKind, values: Mapping[str, float]) -> None:
        """A request's features, or its scores. Names that are not watched are passed over."""
        for name, value in values.items():
            watch = self._watches.get((kind, name))
            if watch is not None:
                watch.observe(value)

    def observe_outcome(self, arm: str, *, probability: float, success: float) -> None:
        """What came of a request: the forecast that its decision was made on, and how it was graded, in [0, 1]."""
        self._arms.setdefault(arm, _ArmWatch(self._config)).observe(probability, success)

    def check(self) -> DriftState:
        """Take stock, about once a tick; alarms are raised and ended here."""
        reasons = []
        for (kind, name), watch in self._watches.items():
            if watch.check():
                reasons.append(DriftReason(kind=kind, name=name, value=watch.psi))
        for arm, arm_watch in self._arms.items():
            if arm_watch.is_alarmed:
                reasons.append(DriftReason(kind=DriftKind.OUTCOME, name=arm, value=arm_watch.shortfall))
        return DriftState(
            reasons=tuple(reasons),
            psi={key: watch.psi for key, watch in self._watches.items() if watch.recent is not None},
            shortfalls={arm: watch.test.mean_shortfall for arm, watch in self._arms.items()},
        )

    def plain(self) -> dict[str, Any]:
        """What outlives a restart, as numbers, strings and lists."""
        return {
            "schema": STATE_SCHEMA,
            "watches": [[kind.value, name, watch.plain()] for (kind, name), watch in self._watches.items()],
            "arms": {arm: watch.plain() for arm, watch in self._arms.items()},
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Go on from what `plain` described, as far as it is watched still.

        A number whose reference is another now, as after a new fit, begins anew.

        Raises:
            ValueError: it was saved by another version.
        """
        if plain.get("schema") != STATE_SCHEMA:
            raise ValueError(f"the saved state has schema {plain.get('schema')!r}, not {STATE_SCHEMA}")
        for kind, name, saved in plain["watches"]:
            watch = self._watches.get((DriftKind(kind), name))
            if watch is not None:
                watch.restore(saved)
        for arm, saved in plain["arms"].items():
            self._arms.setdefault(arm, _ArmWatch(self._config)).restore(saved)


class _Watch:
    """One number of every request."""

    def __init__(self, config: DriftConfig, known: Reference | None) -> None:
        self._config = config
        self._learnt: list[float] = []
        self.recent = self._histogram(known) if known else None
        self.psi = 0.0
        self.is_alarmed = False

    def observe(self, value: float) -> None:
        if self.recent is not None:
            self.recent.observe(value)
            return
        self._learnt.append(value)
        if len(self._learnt) == self._config.num_learnt:
            self.recent = self._histogram(reference(self._learnt))
            self._learnt.clear()

    def plain(self) -> dict[str, Any]:
        return {
            "learnt": list(self._learnt),
            "recent": asdict(self.recent) if self.recent else None,
            "psi": self.psi,
            "is_alarmed": self.is_alarmed,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        saved = plain["recent"]
        known = None if saved is None else Reference(**{**saved["reference"], **_tuples(saved["reference"])})
        if self.recent is not None and (known is None or known != self.recent.reference):
            return
        self._learnt = list(plain["learnt"])
        if known is not None:
            self.recent = RecentHistogram(**(saved | {"reference": known}))
        self.psi, self.is_alarmed = plain["psi"], plain["is_alarmed"]

    def _histogram(self, known: Reference) -> RecentHistogram:
        return RecentHistogram(reference=known, num_recent=self._config.num_recent)

    def check(self) -> bool:
        if self.recent is None or self.recent.num_values < self._config.min_requests:
            return False
        self.psi = self.recent.psi()
        self.is_alarmed = self.psi > (self._config.psi_clear if self.is_alarmed else self._config.psi_alarm)
        return self.is_alarmed


class _ArmWatch:
    """The outcomes of one arm."""

    def __init__(self, config: DriftConfig) -> None:
        self._config = config
        self.test = OutcomeTest(tolerance=config.tolerance)
        self.is_alarmed = False
        self.shortfall = 0.0
        """As it was when the alarm was raised, or at the last look that did not end it."""

    def observe(self, probability: float, success: float) -> None:
        self.test.observe(probability, success)
        if self.test.evidence >= self._config.mean_outcomes_between_false_alarms:
            self._judge(is_alarmed=True)
        elif self.is_alarmed and self.test.num_outcomes >= self._config.num_clear:
            self._judge(is_alarmed=self.test.mean_shortfall > self._config.tolerance)

    def _judge(self, *, is_alarmed: bool) -> None:
        self.is_alarmed = is_alarmed
        self.shortfall = self.test.mean_shortfall
        self.test.restart()

    def plain(self) -> dict[str, Any]:
        return {"test": asdict(self.test), "is_alarmed": self.is_alarmed, "shortfall": self.shortfall}

    def restore(self, plain: Mapping[str, Any]) -> None:
        self.test = OutcomeTest(**(plain["test"] | {"tolerance": self._config.tolerance}))
        self.is_alarmed, self.shortfall = plain["is_alarmed"], plain["shortfall"]


def _tuples(reference: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """JSON has no tuples."""
    return {name: tuple(reference[name]) for name in ("edges", "shares")}
