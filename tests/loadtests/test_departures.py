"""When clients leave: the plan by its laws, the usual times and phases by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from loadtests.departures import LEFT, Phase, UsualTimes, phase_of, plan_departures
from loadtests.timeline import Timeline


def timeline(
    *,
    is_streaming: bool = True,
    headers_s: float | None = 1.5,
    token_times_s: tuple[float, ...] = (2.0, 3.0),
    ended_s: float = 4.0,
    error: str | None = None,
) -> Timeline:
    return Timeline(
        scheduled_s=0.0,
        is_streaming=is_streaming,
        sent_s=1.0,
        is_reused_connection=False,
        headers_s=headers_s,
        token_times_s=token_times_s if is_streaming else (),
        ended_s=ended_s,
        status=None if headers_s is None else 200,
        error=error,
    )


def test_every_phase_is_about_as_frequent() -> None:
    """2,000 clients: 400 in each of five phases, give or take what chance allows; resets for half of them."""
    plan = plan_departures(2000, seed=0)
    counts = Counter(departure.phase for departure in plan)
    assert len(plan) == 2000
    assert all(330 < counts[phase] < 470 for phase in Phase)
    assert 900 < sum(departure.resets for departure in plan) < 1100
    assert all(0 <= departure.fraction < 1 for departure in plan)
    assert 550 < sum(departure.fraction == 0 for departure in plan) < 800


def test_only_streams_have_phases_of_streams() -> None:
    """Those that stay are of both kinds."""
    plan = plan_departures(500, seed=1)
    streaming = {phase: {d.is_streaming for d in plan if d.phase is phase} for phase in Phase}
    assert streaming[Phase.COMPLETE] == {False, True}
    assert streaming[Phase.WHOLE] == {False}
    for phase in (Phase.BEFORE_HEADERS, Phase.BEFORE_FIRST_TOKEN, Phase.MID_STREAM):
        assert streaming[phase] == {True}


def test_the_seed_decides_the_mix() -> None:
    """Same seed, same clients."""
    assert plan_departures(50, seed=3) == plan_departures(50, seed=3)
    assert plan_departures(50, seed=3) != plan_departures(50, seed=4)


def test_usual_times_are_medians_of_complete_answers() -> None:
    """Worked by hand; what failed teaches nothing."""
    usual = UsualTimes.of(
        [
            timeline(headers_s=1.5, token_times_s=(2.0, 3.0)),
            timeline(headers_s=1.7, token_times_s=(2.6, 3.0, 3.5, 4.0)),
            timeline(error="status 500", headers_s=9.0),
            timeline(is_streaming=False, ended_s=6.0),
        ]
    )
    assert usual.headers_s == pytest.approx(0.6)
    assert usual.first_token_s == pytest.approx(0.7)
    assert usual.num_tokens == 3
    assert usual.whole_s == pytest.approx(5.0)


def test_without_both_kinds_there_are_no_usual_times() -> None:
    """And the error names what came instead."""
    with pytest.raises(ValueError, match="status 401"):
        UsualTimes.of([timeline(), timeline(is_streaming=False, error="status 401: no key")])


@pytest.mark.parametrize(
    ("ended", "phase"),
    [
        (timeline(), Phase.COMPLETE),
        (timeline(error="status 500"), Phase.COMPLETE),
        (timeline(error=LEFT, headers_s=None, token_times_s=()), Phase.BEFORE_HEADERS),
        (timeline(error=LEFT, token_times_s=()), Phase.BEFORE_FIRST_TOKEN),
        (timeline(error=LEFT), Phase.MID_STREAM),
        (timeline(error=LEFT, is_streaming=False, headers_s=None), Phase.WHOLE),
    ],
)
def test_the_phase_is_what_came_about(ended: Timeline, phase: Phase) -> None:
    """Read off the timeline, not off the plan; a failure was not left."""
    assert phase_of(ended) is phase
