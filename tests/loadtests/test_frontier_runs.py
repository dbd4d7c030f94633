"""Turns are taken forwards and backwards, kept whole, and found again by the same run alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtests.frontier_load import Answer, Way
from loadtests.frontier_runs import Kept, OtherRunError, Taken, steps
from router.prompts import make

WAYS = [Way(name=name, model="auto", target=0.5) for name in "abcde"]
ITEM = make("sums", seed=0, index=0, level=0)
ANSWER = Answer(
    prompt_id=ITEM.prompt_id,
    is_right=True,
    tier="fast",
    reason="best_value",
    router="router-1",
    cost=0.5,
    ttft_s=0.1,
    tpot_s=None,
    e2e_s=0.2,
    num_output_tokens=1,
    text="3",
    error=None,
)


def test_each_way_is_as_early_as_late() -> None:
    """Over two parts the places of every way add up to the same, so that a steady drift cancels."""
    turns = steps(WAYS, 2, seed=3)
    assert {turn.part for turn in turns} == {0, 1}
    sums = {way.name: sum(turn.number for turn in turns if turn.way is way) for way in WAYS}
    assert set(sums.values()) == {9}
    assert [turn.way.name for turn in turns[:5]] != [way.name for way in WAYS]


def test_a_turn_is_found_again(tmp_path: Path) -> None:
    step, other = steps(WAYS, 1, seed=0)[:2]
    kept = Kept(tmp_path / "run")
    taken = Taken(way=step.way.name, part=0, asking_s=1.5, starting_s=0.5, answers=(ANSWER,))
    kept.begin({"seed": 0}, [ITEM])
    kept.keep(step, taken)
    again = Kept(tmp_path / "run")
    again.check({"seed": 0})
    assert again.taken(step) == taken
    assert again.taken(other) is None
    assert not list((tmp_path / "run").glob(".*"))


def test_another_run_is_refused(tmp_path: Path) -> None:
    """Turns of other tiers or prompts are never mixed; what differs is said."""
    kept = Kept(tmp_path)
    kept.check({"models": {"fast": "a:1"}})
    kept.begin({"models": {"fast": "a:1"}}, [])
    with pytest.raises(OtherRunError, match=r'models \{"fast":"a:1"\}, and this one has \{"fast":"b:2"\}'):
        kept.check({"models": {"fast": "b:2"}})
    with pytest.raises(OtherRunError, match="with max_tokens null"):
        kept.check({"models": {"fast": "a:1"}, "max_tokens": 8})
