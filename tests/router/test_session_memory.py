"""The memory of a session: up at once, down slowly, and never a trace of it where there is nothing to remember."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.session import HALF_LIFE_S, KEPT_PER_TURN, NOTHING, Recollection, SessionMemory

EASY = {"fast": 0.95, "full": 0.98}
HARD = {"fast": 0.3, "full": 0.8}
probabilities = st.fixed_dictionaries({"fast": st.floats(0, 1), "full": st.floats(0, 1)})


def gain(of: dict[str, float]) -> float:
    return of["full"] - of["fast"]


def turns(*forecasts: dict[str, float], gap_s: float = 0.0) -> list[dict[str, float]]:
    """What each turn of a session is decided on."""
    recollection, decided = NOTHING, []
    for i, forecast in enumerate(forecasts):
        decided.append(dict(recollection.weighed(forecast)))
        memory = SessionMemory(probabilities=decided[-1], at=i * gap_s)
        recollection = memory.recollection((i + 1) * gap_s)
    return decided


def test_up_at_once_and_down_slowly() -> None:
    """A hard turn is decided by itself; the gain of going up fades by a factor with each easy turn after it."""
    first, second, *later = turns(EASY, HARD, EASY, EASY, EASY, EASY)
    assert (first, second) == (EASY, HARD)
    gains = [gain(HARD), *map(gain, later)]
    for earlier, after in pairwise(gains):
        assert after == pytest.approx(KEPT_PER_TURN * earlier + (1 - KEPT_PER_TURN) * gain(EASY))


def test_time_alone_forgets() -> None:
    """After a half-life half of it is left; after a night nothing."""
    memory = SessionMemory(probabilities=HARD, at=0.0)
    assert memory.recollection(HALF_LIFE_S).weight == pytest.approx(KEPT_PER_TURN / 2)
    assert memory.recollection(8 * 3600.0) is NOTHING
    assert memory.recollection(-5.0).weight == KEPT_PER_TURN  # a clock that ran back does not strengthen it


@given(probabilities, probabilities, st.floats(0, 1))
def test_memory_never_flatters(
    forecast: dict[str, float], remembered: dict[str, float], weight: float
) -> None:
    """No arm is taken for likelier than the model says, and a stronger arm's advantage over another is never less."""
    weighed = Recollection(probabilities=remembered, weight=weight).weighed(forecast)
    assert all(weighed[arm] <= p for arm, p in forecast.items())
    assert all(0 <= p <= 1 for p in weighed.values())
    if gain(forecast) > 0:
        assert gain(weighed) >= gain(forecast) - 1e-12


@given(probabilities, probabilities)
def test_a_turn_that_is_harder_than_the_memory_is_decided_by_itself(
    forecast: dict[str, float], remembered: dict[str, float]
) -> None:
    """What is remembered counts only where it makes going up worth more."""
    if gain(forecast) > 0 and gain(forecast) >= gain(remembered):
        assert Recollection(probabilities=remembered, weight=1.0).weighed(forecast) == forecast


@given(probabilities)
def test_nothing_remembered_changes_nothing(forecast: dict[str, float]) -> None:
    """The first turn, and an arm that was not there before, are what the model says."""
    assert NOTHING.weighed(forecast) is forecast
    other = Recollection(probabilities={"other": 0.0}, weight=1.0)
    assert other.weighed(forecast) == forecast
