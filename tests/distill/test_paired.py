"""What is kept of a teacher's score: by hand, and in the laws that paired intervals have."""

from __future__ import annotations

import pytest

from distill.paired import Pair, kept


def test_by_hand() -> None:
    """Macro means over domains: (0.5 + 0.25) / 2 of (1 + 0.5) / 2 is one half; differences are of mean scores."""
    found = kept(
        {"a": Pair((1, 0, 1, 0), (1, 1, 1, 1)), "b": Pair((0.25, 0.25), (0.5, 0.5))}, seed=0, num_draws=200
    )
    assert found.retention is not None
    assert found.retention.value == pytest.approx(0.5)
    assert found.differences["a"].value == pytest.approx(-0.5)
    assert found.differences["a"].low < -0.5 < found.differences["a"].high
    assert (found.differences["b"].low, found.differences["b"].high) == pytest.approx((-0.25, -0.25))


def test_the_same_scores_keep_all() -> None:
    """Both sides' scores of an item are drawn together, so that equal ones have no interval however they vary."""
    scores = (1.0, 0.0, 0.0, 1.0, 0.0)
    found = kept({"a": Pair(scores, scores)}, seed=1, num_draws=200)
    assert found.differences["a"] == found.differences["a"].__class__(0.0, 0.0, 0.0)
    assert found.retention is not None
    assert found.retention.value == 1
    assert found.retention.high == 1


def test_the_interval_is_the_binomial_one() -> None:
    """Half of 400 items lost: the standard error of the difference is 0.025, of a bootstrap too."""
    found = kept({"a": Pair((0.0, 1.0) * 200, (1.0,) * 400)}, seed=2)
    low, high = found.differences["a"].low, found.differences["a"].high
    assert low == pytest.approx(-0.5 - 1.96 * 0.025, abs=0.005)
    assert high == pytest.approx(-0.5 + 1.96 * 0.025, abs=0.005)
    assert found.retention is not None
    assert found.retention.low == pytest.approx(1 + low)


def test_pairing_narrows() -> None:
    """Where the candidate fails on what the teacher fails on too, the interval is narrower than of items apart."""
    teacher = (1.0, 0.0) * 50
    alike = tuple(score * 0.9 for score in teacher)
    apart = tuple(reversed(alike))
    together, separate = (
        kept({"a": Pair(side, teacher)}, seed=3).differences["a"] for side in (alike, apart)
    )
    assert together.value == pytest.approx(separate.value)
    assert together.high - together.low < (separate.high - separate.low) / 5


def test_of_nothing_nothing_is_kept() -> None:
    """A teacher that solves nothing has no retention, whatever the candidate does."""
    assert kept({"a": Pair((1.0, 1.0), (0.0, 0.0))}, seed=0, num_draws=50).retention is None


def test_draws_where_the_teacher_fails_count_as_nothing() -> None:
    """One item of three that the teacher solves is missing from some draws: the lower end says so."""
    found = kept({"a": Pair((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))}, seed=0)
    assert found.retention is not None
    assert (found.retention.low, found.retention.value) == (0.0, 1.0)


@pytest.mark.parametrize("pairs", [{}, {"a": Pair((), ())}, {"a": Pair((1.0,), (1.0, 0.0))}])
def test_items_are_the_same(pairs: dict[str, Pair]) -> None:
    """No domain, no items, or other items: refused."""
    with pytest.raises(ValueError, match="both sides answered"):
        kept(pairs, seed=0)
