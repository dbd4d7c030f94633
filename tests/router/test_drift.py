"""Drift: silent while nothing changes, soon to see what does, steady on the way back, and the same after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.drift import DriftConfig, DriftKind, DriftMonitor, DriftReason
from router.histogram import RecentHistogram, Reference, reference
from router.outcome_test import OutcomeTest

CONFIG = DriftConfig()
NORMAL = reference(list(np.random.default_rng(99).normal(size=5000)))


def histogram(known: Reference = NORMAL, *, num_recent: float = 1000.0) -> RecentHistogram:
    return RecentHistogram(reference=known, num_recent=num_recent)


def monitor(known: Reference | None = NORMAL, **terms: Any) -> DriftMonitor:
    return DriftMonitor(DriftConfig(**terms), {(DriftKind.INPUT, "length"): known})


def feed(watched: DriftMonitor, values: np.ndarray[Any, Any]) -> None:
    for value in values:
        watched.observe_request(DriftKind.INPUT, {"length": float(value), "unknown": 1.0})


def grade(
    watched: DriftMonitor, num: int, *, drop: float, rng: np.random.Generator, arm: str = "fast"
) -> int | None:
    """Grade answers that succeed less often than forecast by `drop`; the outcome at which the flag came up, if any."""
    for i in range(num):
        p = rng.uniform(0.5, 1)
        watched.observe_outcome(arm, probability=p, success=float(rng.random() < p - drop))
        if watched.check().is_conservative:
            return i + 1
    return None


def test_a_reference_has_equal_bins_as_far_as_values_differ() -> None:
    """Even values make ten equal bins; half of them alike make one bin of a half; what is alike makes two, of which
    one may be empty."""
    assert reference(list(range(1000))).shares == pytest.approx([0.1] * 10)
    half = reference([0.0] * 500 + [float(i) for i in range(1, 501)])
    assert half.shares[0] == pytest.approx(0.5, abs=0.01)
    assert sum(half.shares) == pytest.approx(1)
    assert reference([3.0] * 10) == Reference(
        edges=(np.nextafter(3.0, 4.0),), shares=(1.0, 0.0), num_values=10
    )
    rare = reference([0.0] * 97 + [1.0, 2.0, 3.0])
    assert (rare.edges, rare.shares) == ((1.0,), (0.97, 0.03))
    with pytest.raises(ValueError, match="needs values"):
        reference([])


def test_the_index_by_hand() -> None:
    """Two halves become a quarter and three quarters: −¼·ln ½ + ¼·ln 3⁄2, less 1/n for chance."""
    known = Reference(edges=(0.0,), shares=(0.5, 0.5), num_values=10**9)
    recent = histogram(known, num_recent=1e6)
    for i in range(4000):
        recent.observe(-1.0 if i % 4 == 0 else 1.0)
    number = recent.effective_number
    assert number == pytest.approx(4000, rel=1e-3)
    expected = (0.25 - 0.5) * np.log(0.25 / 0.5) + (0.75 - 0.5) * np.log(0.75 / 0.5)
    assert recent.psi() == pytest.approx(expected - 1 / number, abs=5e-4)


@given(st.integers(1, 2000), st.floats(2, 500))
def test_the_effective_number_is_kishs(num: int, num_recent: float) -> None:
    """(Σw)²/Σw² of the weights that the values really have."""
    recent = histogram(num_recent=num_recent)
    for _ in range(num):
        recent.observe(0.0)
    weights = (1 - 1 / num_recent) ** np.arange(num)
    assert recent.effective_number == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())


@pytest.mark.parametrize(("share", "is_drift"), [(0.0, False), (0.05, False), (0.25, True)])
def test_what_never_was_is_drift_once_it_is_no_longer_rare(share: float, is_drift: bool) -> None:
    """A feature that was always 0: a twentieth of requests with more of it is none, a quarter is."""
    watched, rng = monitor(reference([0.0] * 5000)), np.random.default_rng(0)
    feed(watched, (rng.random(4000) < share).astype(float))
    assert watched.check().is_conservative is is_drift


def test_a_long_stream_does_not_overflow() -> None:
    """Weights are brought back before they leave the range of floats, and what was seen keeps its share."""
    recent = histogram(num_recent=10.0)
    for i in range(20_000):
        recent.observe(-9.0 if i < 19_980 else 9.0)
    shares = np.array(recent.counts) / sum(recent.counts)
    assert shares[-1] == pytest.approx(1 - 0.9**20)
    assert max(recent.counts) < 1e101


@pytest.mark.parametrize("seed", range(5))
def test_without_drift_the_index_is_about_nothing(seed: int) -> None:
    """Over 20,000 requests from the reference's own distribution the index stays far below the alarm."""
    rng, recent = np.random.default_rng(seed), histogram()
    highest = 0.0
    for i, value in enumerate(rng.normal(size=20_000)):
        recent.observe(float(value))
        if i > 500 and i % 50 == 0:
            highest = max(highest, recent.psi())
    assert highest < 0.06


def test_chance_alone_is_taken_off_the_index() -> None:
    """Of a hundred values the plain index would be near 9/200 on the mean; less what chance makes of it, near 0."""
    indices = []
    for seed in range(60):
        recent = histogram(num_recent=100.0)
        for value in np.random.default_rng(seed).normal(size=1000):
            recent.observe(float(value))
        indices.append(recent.psi())
    assert np.mean(indices) == pytest.approx(0, abs=0.01)


def test_an_alarm_takes_more_to_raise_than_to_keep() -> None:
    """An index between the two bounds keeps a flag that is up and raises none that is down."""
    rng, alarmed, calm = np.random.default_rng(0), monitor(), monitor()
    feed(alarmed, rng.normal(size=3000) + 1)
    assert alarmed.check().is_conservative
    for watched in (alarmed, calm):
        feed(watched, rng.normal(size=8000) + 0.42)
        assert CONFIG.psi_clear < watched.check().psi[DriftKind.INPUT, "length"] < CONFIG.psi_alarm
    assert alarmed.check().is_conservative
    assert not calm.check().is_conservative


def test_a_shift_of_inputs_raises_the_flag_and_its_end_lowers_it() -> None:
    """Inputs a deviation away are seen within 1,500 requests, named, and forgotten after as many ordinary ones; the
    flag comes up once and goes down once."""
    watched, rng = monitor(), np.random.default_rng(0)
    flags = []
    for shift in (0.0, 1.0, 0.0):
        for _ in range(60):
            feed(watched, rng.normal(size=50) + shift)
            flags.append(watched.check().is_conservative)
    assert not any(flags[:60])
    assert all(flags[90:120])
    assert not any(flags[170:])
    assert sum(one != other for one, other in pairwise(flags)) == 2


def test_the_reason_names_what_drifted() -> None:
    """Kind, name and index, for the log and the metrics."""
    watched = monitor()
    feed(watched, np.random.default_rng(0).normal(size=3000) + 2)
    (reason,) = watched.check().reasons
    assert (reason.kind, reason.name) == (DriftKind.INPUT, "length")
    assert reason.value == watched.check().psi[DriftKind.INPUT, "length"] > CONFIG.psi_alarm


def test_a_flag_does_not_come_before_there_is_enough() -> None:
    """A few hundred strange requests are not a change yet."""
    watched = monitor()
    feed(watched, np.full(CONFIG.min_requests - 1, 50.0))
    assert not watched.check().is_conservative
    feed(watched, np.full(1, 50.0))
    assert watched.check().is_conservative


def test_without_a_reference_the_first_requests_are_it() -> None:
    """Nothing is said while it learns; after that, a shift away from what was learnt is seen."""
    watched, rng = monitor(None), np.random.default_rng(0)
    feed(watched, rng.normal(size=CONFIG.num_learnt - 1))
    assert watched.check().psi == {}
    feed(watched, rng.normal(size=3000))
    assert not watched.check().is_conservative
    feed(watched, rng.normal(size=3000) + 1.5)
    assert watched.check().is_conservative


def test_false_alarms_are_as_rare_as_stated() -> None:
    """With success short of the forecast by exactly the tolerance, the worst that is no alarm, the mean number of
    outcomes until the first alarm is at least the stated one (of which 40 runs know about a sixth)."""
    stated, lengths = 1000.0, []
    for seed in range(40):
        rng, test, number = np.random.default_rng(seed), OutcomeTest(tolerance=0.05), 0
        while test.evidence < stated:
            p = rng.uniform(0.3, 1)
            test.observe(p, float(rng.random() < p - 0.05))
            number += 1
        lengths.append(number)
    assert np.mean(lengths) > 0.8 * stated


def test_calibrated_outcomes_raise_nothing() -> None:
    """Twenty thousand outcomes as forecast, on two arms, in ten streams: no flag."""
    for seed in range(10):
        rng, watched = np.random.default_rng(seed), monitor()
        assert grade(watched, 1000, drop=0.0, rng=rng) is None
        assert grade(watched, 1000, drop=0.0, rng=rng, arm="full") is None


@pytest.mark.parametrize(("drop", "within"), [(0.15, 800), (0.3, 200)])
def test_a_drop_in_quality_is_seen_soon(drop: float, within: int) -> None:
    """After two thousand good outcomes, a drop is seen within some hundreds; the reason names the arm and the loss."""
    for seed in range(10):
        rng, watched = np.random.default_rng(seed), monitor()
        assert grade(watched, 2000, drop=0.0, rng=rng) is None
        delay = grade(watched, within, drop=drop, rng=rng)
        assert delay is not None
        (reason,) = watched.check().reasons
        assert (reason.kind, reason.name) == (DriftKind.OUTCOME, "fast")


def test_an_outcome_alarm_ends_when_forecasts_hold_again() -> None:
    """It stands while answers keep failing, whatever the number, and ends after a stretch as forecast."""
    rng, watched = np.random.default_rng(0), monitor()
    assert grade(watched, 1000, drop=0.3, rng=rng)
    for _ in range(20):
        for _ in range(100):
            p = rng.uniform(0.5, 1)
            watched.observe_outcome("fast", probability=p, success=float(rng.random() < p - 0.3))
        assert watched.check().is_conservative
    for _ in range(2 * CONFIG.num_clear):
        p = rng.uniform(0.5, 1)
        watched.observe_outcome("fast", probability=p, success=float(rng.random() < p))
    assert not watched.check().is_conservative


def test_a_loss_too_small_to_raise_an_alarm_keeps_one() -> None:
    """After the alarm answers fall short by twice the tolerance, which is not evidence enough for a new alarm within
    a stretch, and too much to end the old one."""
    rng, watched = np.random.default_rng(1), monitor()
    assert grade(watched, 1000, drop=0.3, rng=rng)
    for _ in range(CONFIG.num_clear + 10):
        p = rng.uniform(0.5, 1)
        watched.observe_outcome("fast", probability=p, success=float(rng.random() < p - 0.1))
    assert watched.check().is_conservative
    assert watched.check().reasons[0].value < 0.2, "judged by the stretch, not by the first alarm"


def test_scores_in_between_count_as_they_are() -> None:
    """A judge's scores, all half, against forecasts of a half: nothing; against forecasts of .9: an alarm."""
    for forecast, is_conservative in ((0.5, False), (0.9, True)):
        watched = monitor()
        for _ in range(300):
            watched.observe_outcome("fast", probability=forecast, success=0.5)
        assert watched.check().is_conservative is is_conservative


observations = st.lists(
    st.tuples(st.just("request"), st.floats(-5, 5)) | st.tuples(st.just("outcome"), st.floats(0, 1)),
    max_size=80,
)


@given(observations, observations, st.booleans())
def test_a_restart_changes_nothing(
    before: list[tuple[str, float]], after: list[tuple[str, float]], has_reference: bool
) -> None:
    """Saved as JSON and restored, the monitor goes on exactly as one that was never stopped."""
    terms = {"min_requests": 5, "num_learnt": 10, "num_clear": 5, "mean_outcomes_between_false_alarms": 10.0}
    known = NORMAL if has_reference else None
    one, other = monitor(known, **terms), monitor(known, **terms)

    def apply(watched: DriftMonitor, events: list[tuple[str, float]]) -> list[tuple[DriftReason, ...]]:
        seen = []
        for kind, value in events:
            if kind == "request":
                feed(watched, np.array([value]))
            else:
                watched.observe_outcome("fast", probability=0.9, success=value)
            seen.append(watched.check().reasons)
        return seen

    apply(one, before)
    other.restore(json.loads(json.dumps(one.plain())))
    assert other.check() == one.check()
    assert apply(other, after) == apply(one, after)
    assert other.plain() == one.plain()


def test_a_new_reference_begins_anew() -> None:
    """After a new fit the saved counts belong to other bins and are left behind; another schema is refused."""
    old = monitor()
    feed(old, np.random.default_rng(0).normal(size=3000) + 2)
    assert old.check().is_conservative
    new = monitor(reference([float(i) for i in range(100)]))
    new.restore(old.plain())
    assert not new.check().is_conservative
    with pytest.raises(ValueError, match="schema"):
        new.restore({"schema": 0})


def test_memory_is_bounded() -> None:
    """Ten thousand requests and outcomes leave no more behind than one thousand."""
    watched, rng = monitor(None), np.random.default_rng(0)
    sizes = []
    for _ in range(10):
        feed(watched, rng.normal(size=1000))
        grade(watched, 100, drop=0.0, rng=rng)
        sizes.append(len(json.dumps(watched.plain())))
    assert max(sizes[3:]) < 1000 < sizes[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"psi_clear": 0.3},
        {"num_recent": 1.0},
        {"num_learnt": 0},
        {"tolerance": 0.3},
        {"mean_outcomes_between_false_alarms": 0.0},
        {"num_clear": 0},
    ],
)
def test_terms_that_make_no_sense_are_refused(wrong: Mapping[str, Any]) -> None:
    """The message names the term and says what it must be."""
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` is .*; it must be"):
        DriftConfig(**wrong)
