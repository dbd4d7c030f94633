"""Quantiles by hand, and the interval of an added quantile by its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.quantiles import MIN_PAIRS, _SortedLane, added_quantiles, quantile

QS = (0.5, 0.9, 0.99)


def noisy_blocks(seed: int, *, num_pairs: int = 20, added: float = 0.0) -> list[np.ndarray]:
    """Blocks of 30 values that share their block's noise, as requests of one second do."""
    rng = np.random.default_rng(seed)
    return [rng.normal(scale=1.0) + rng.exponential(size=30) + added for _ in range(num_pairs)]


def test_quantiles_lie_between_order_statistics() -> None:
    """Type 7: the q-quantile of n values stands at (n − 1)·q."""
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([1, 2, 3, 4], 0.9) == pytest.approx(3.7)
    assert quantile([4, 1, 3, 2], 1.0) == 4
    assert quantile([7], 0.99) == 7


def test_added_is_the_difference_of_quantiles() -> None:
    """Worked numbers, and not the quantile of differences: those are −2, 0, 2 here, whose p90 is 1.6."""
    (median, p90) = added_quantiles(
        direct=[np.array([1, 2, 3])], gateway=[np.array([3, 2, 1])], qs=(0.5, 0.9), seed=0
    )
    assert median.value == 0
    assert p90.value == 0


def test_a_constant_shift_is_found_exactly() -> None:
    """Whatever the noise, adding 3 to every value adds 3 to every quantile, and the interval has no width."""
    direct = noisy_blocks(1)
    for estimate in added_quantiles(direct=direct, gateway=[block + 3 for block in direct], qs=QS, seed=0):
        assert estimate.value == pytest.approx(3)
        assert estimate.low == pytest.approx(3)
        assert estimate.high == pytest.approx(3)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """95 % asked, at least 85 % demanded, on lanes whose blocks have noise of their own."""
    covered = 0
    for seed in range(60):
        (estimate,) = added_quantiles(
            direct=noisy_blocks(seed),
            gateway=noisy_blocks(1000 + seed, added=0.5),
            qs=(0.5,),
            seed=seed,
            num_resamples=200,
        )
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.5 <= estimate.high
    assert covered >= 51


def test_the_same_seed_gives_the_same_interval() -> None:
    """A report can be reproduced from its observations."""
    lanes = {"direct": noisy_blocks(1), "gateway": noisy_blocks(2)}
    assert added_quantiles(**lanes, qs=QS, seed=5) == added_quantiles(**lanes, qs=QS, seed=5)
    assert added_quantiles(**lanes, qs=QS, seed=5) != added_quantiles(**lanes, qs=QS, seed=6)


def test_too_few_pairs_have_no_interval() -> None:
    """A bootstrap over a handful of clusters would look surer than it is."""
    few = noisy_blocks(1, num_pairs=MIN_PAIRS - 1)
    (estimate,) = added_quantiles(direct=few, gateway=few, qs=(0.5,), seed=0)
    assert (estimate.low, estimate.high) == (None, None)


def test_blocks_without_observations_are_no_hindrance() -> None:
    """A short block may hold no stream at all."""
    blocks = [*noisy_blocks(1), np.array([])]
    (estimate,) = added_quantiles(direct=blocks, gateway=blocks, qs=(0.5,), seed=0)
    assert estimate.value == 0


def test_lanes_that_do_not_pair_up_are_refused() -> None:
    """Different numbers of blocks, or none that observed anything."""
    with pytest.raises(ValueError, match="do not pair up"):
        added_quantiles(direct=noisy_blocks(1), gateway=noisy_blocks(1)[:-1], qs=QS, seed=0)
    with pytest.raises(ValueError, match="observed nothing"):
        added_quantiles(direct=[np.array([])], gateway=[np.array([1.0])], qs=QS, seed=0)


@given(
    blocks=st.lists(st.lists(st.floats(-1e3, 1e3), max_size=6), min_size=1, max_size=5),
    data=st.data(),
)
def test_sorted_resamples_equal_plain_ones(blocks: list[list[float]], data: st.DataObject) -> None:
    """Repeating within the sorted sample gives numpy's quantiles of the sample put together block by block."""
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(blocks), max_size=len(blocks)))
    resample = [value for block, count in zip(blocks, counts, strict=True) for value in block * count]
    lane = _SortedLane([np.asarray(block, dtype=np.float64) for block in blocks])
    assert lane.num_observed(np.asarray(counts)) == len(resample)
    if resample:
        found = lane.quantiles(np.asarray(counts), QS)
        assert found == pytest.approx(np.quantile(resample, QS), abs=1e-9)
