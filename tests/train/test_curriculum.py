"""The curriculum: more of what can be learned, something of everything, and the same plan from the same past."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.curriculum import MASTERED, Curriculum, Rate

LEVELS = {"easy": (0, 1, 2, 3), "fit": (0, 1, 2, 3), "hopeless": (0, 1, 2, 3)}


def taught(**options: object) -> Curriculum:
    """After many groups: one domain always passes its first level, one does half the time, one never."""
    curriculum = Curriculum(LEVELS, seed=1, **options)  # type: ignore[arg-type]
    for _ in range(60):
        curriculum.observe("easy", 0, num_passed=8, num_failed=0)
        curriculum.observe("fit", 0, num_passed=4, num_failed=4)
        for level in LEVELS["hopeless"]:
            curriculum.observe("hopeless", level, num_passed=0, num_failed=8)
    return curriculum


def test_more_of_what_can_be_learned() -> None:
    """Half of the time right is worth most, never right least; and even that keeps its floor."""
    shares = taught(floor=0.3).shares()
    assert shares["fit"] > shares["hopeless"]
    assert shares["hopeless"] >= 0.3 / 3
    assert sum(shares.values()) == pytest.approx(1)


def test_window_slides_up() -> None:
    """A mastered level leaves the window to the next; none is skipped."""
    curriculum = taught()
    assert curriculum.window("easy") == (1, 2)
    assert curriculum.window("fit") == (0, 1)
    for level in LEVELS["easy"]:
        for _ in range(30):
            curriculum.observe("easy", level, num_passed=8, num_failed=0)
    assert curriculum.window("easy") == (3,)


def test_shares_are_paid_exactly() -> None:
    """Over many steps each domain gets its share, however few groups a step has."""
    curriculum = Curriculum(LEVELS, kind="uniform")
    drawn = Counter(draw.domain for step in range(50) for draw in curriculum.plan(step, 2))
    assert max(drawn.values()) - min(drawn.values()) <= 1


def test_weights_count() -> None:
    """A domain of three times the weight gets three times the groups."""
    curriculum = Curriculum({"a": (0,), "b": (0,)}, weights={"a": 3}, kind="uniform")
    drawn = Counter(draw.domain for step in range(10) for draw in curriculum.plan(step, 8))
    assert drawn == {"a": 60, "b": 20}


def test_resumed_plan_is_the_same() -> None:
    """A curriculum restored from its state plans what the other would have."""
    one = taught()
    one.plan(0, 5)
    other = Curriculum(LEVELS, seed=1)
    other.restore(one.plain())
    for step in range(1, 6):
        assert one.plan(step, 5) == other.plan(step, 5)
        one.observe("fit", 0, num_passed=1, num_failed=7)
        other.observe("fit", 0, num_passed=1, num_failed=7)


def test_steps_draw_different_items() -> None:
    """No item comes twice in a thousand draws; another seed draws others."""
    draws = [draw for step in range(100) for draw in Curriculum(LEVELS).plan(step, 10)]
    assert len({draw.index for draw in draws}) == 1000
    assert not {d.index for d in draws} & {d.index for d in Curriculum(LEVELS, seed=5).plan(0, 10)}


@given(st.integers(0, 50), st.integers(0, 50))
def test_learnability_is_a_share(passed: int, failed: int) -> None:
    """In (0, 1], and least where all rollouts agree."""
    rate = Rate(passed, failed)
    assert 0 < rate.learnability <= 1
    total = passed + failed
    assert rate.learnability >= Rate(total, 0).learnability - 1e-12


def test_the_old_is_forgotten() -> None:
    """A level that was failed for long and is passed now is mastered within its memory."""
    rate = Rate()
    for _ in range(50):
        rate.observe(0, 8)
    for _ in range(75):
        rate.observe(8, 0)
    assert rate.mean > MASTERED


def test_mastered_levels_are_reviewed() -> None:
    """Now and then a level below the window comes again, and mostly not."""
    curriculum = taught()
    levels = [d.level for step in range(200) for d in curriculum.plan(step, 6) if d.domain == "easy"]
    assert 0.03 < levels.count(0) / len(levels) < 0.2
