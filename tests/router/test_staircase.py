"""The staircase of one request: the policy's own choice at every λ, and the chances under a band."""

from __future__ import annotations

from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.offer import ArmOffer, Metric, Offer, Spend
from router.staircase import banded, staircase


def offer(*arms: tuple[float, float], floor: float = 0.0) -> Offer:
    """Arms as (p, cost)."""
    return Offer(
        arms=tuple(
            ArmOffer(success_probability=p, expected=Spend(cost=cost, engine_seconds=0.0, full_share=0.0))
            for p, cost in arms
        ),
        quality_floor=floor,
    )


sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)
offers = st.builds(
    lambda arms, floor: offer(*arms, floor=floor),
    st.lists(st.tuples(sixty_fourths, st.integers(0, 8).map(float)), min_size=1, max_size=6),
    sixty_fourths,
)
# Rises are n/64/d with d ≤ 8; a multiple of 1/1009 that is no whole number never equals one, so there are no ties.
prices_of_compute = st.integers(1, 4000).filter(lambda n: n % 1009).map(lambda n: n / 1009)


def by_value(offered: Offer, price_of_compute: float) -> ArmOffer:
    """The rule itself: the best `p − λ·price`; below the floor the cheapest that reaches it, or the likeliest."""

    def key(arm: ArmOffer) -> float:
        return arm.success_probability - price_of_compute * arm.expected.cost

    best = max(offered.arms, key=lambda arm: (key(arm), arm.expected.cost))
    if best.success_probability >= offered.quality_floor:
        return best
    reaching = [arm for arm in offered.arms if arm.success_probability >= offered.quality_floor]
    if reaching:
        return min(reaching, key=lambda arm: (arm.expected.cost, -arm.success_probability))
    return max(offered.arms, key=lambda arm: (arm.success_probability, arm.expected.cost))


@given(offers, prices_of_compute)
def test_it_chooses_by_value(offered: Offer, price_of_compute: float) -> None:
    """At every λ the staircase has the p and the cost of the arm of the best value, floor and all."""
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    at = stairs.choose(price_of_compute)
    best = by_value(offered, price_of_compute)
    assert (stairs.probabilities[at], stairs.prices[at]) == (best.success_probability, best.expected.cost)


@given(offers)
def test_it_only_goes_up(offered: Offer) -> None:
    """Prices and probabilities never fall along the staircase, rises never grow, and no arm stands on two steps."""
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    assert list(stairs.prices) == sorted(stairs.prices)
    assert list(stairs.probabilities) == sorted(stairs.probabilities)
    assert list(stairs.log_rises) == sorted(stairs.log_rises, reverse=True)
    assert len(set(stairs.arms)) == len(stairs.arms) == len(stairs.log_rises) + 1


@given(offers, prices_of_compute, st.floats(0.01, 1.0))
def test_chances_are_the_shares_of_the_band(offered: Offer, price_of_compute: float, spread: float) -> None:
    """The chance of each arm is the share of uniform draws whose banded λ picks it."""
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    chances = stairs.chances(price_of_compute, spread)
    num_draws = 2000
    counts = [0] * len(stairs.arms)
    for i in range(num_draws):
        uniform = (i + 0.5) / num_draws
        counts[stairs.choose(banded(price_of_compute, spread=spread, uniform=uniform))] += 1
    assert sum(chances) == pytest.approx(1.0)
    assert min(chances) >= 0
    for chance, count in zip(chances, counts, strict=True):
        assert chance == pytest.approx(count / num_draws, abs=1.5 / num_draws)


def test_worked_example() -> None:
    """Three arms: (.5, 1), (.6, 3), (.9, 4). The middle one lies below the line and is never picked."""
    stairs = staircase(offer((0.6, 3.0), (0.5, 1.0), (0.9, 4.0)), Metric.COST_PER_REQUEST)
    assert stairs.arms == (1, 2)
    assert stairs.log_rises == pytest.approx([log(0.4 / 3)])


@pytest.mark.parametrize(
    ("floor", "prices"),
    [
        (0.0, [1.0, 2.0, 6.0]),
        (0.55, [2.0, 6.0]),  # the cheapest that reaches it
        (0.65, [4.0, 6.0]),  # on no hull, yet the cheapest that reaches it
        (0.95, [6.0]),  # none reaches it: the likeliest, at any λ
    ],
)
def test_the_floor_replaces_the_corners_below_it(floor: float, prices: list[float]) -> None:
    """Corners below the floor give way to the cheapest arm that reaches it."""
    stairs = staircase(
        offer((0.5, 1.0), (0.6, 2.0), (0.7, 4.0), (0.9, 6.0), floor=floor), Metric.COST_PER_REQUEST
    )
    assert list(stairs.prices) == prices


@pytest.mark.parametrize(
    ("metric", "prices"),
    [
        (Metric.FULL_SHARE, (0.0, 1.0)),
        (Metric.COST_PER_REQUEST, (2.0, 7.0)),
        (Metric.COST_PER_HOUR, (2.0, 7.0)),
        (Metric.ENGINE_SECONDS_PER_REQUEST, (0.5, 3.0)),
    ],
)
def test_each_metric_has_its_own_price(metric: Metric, prices: tuple[float, float]) -> None:
    """λ multiplies what the metric counts: full-tier requests, money, or seconds."""
    arms = (
        ArmOffer(success_probability=0.5, expected=Spend(cost=2.0, engine_seconds=0.5, full_share=0.0)),
        ArmOffer(success_probability=0.9, expected=Spend(cost=7.0, engine_seconds=3.0, full_share=1.0)),
    )
    assert staircase(Offer(arms=arms), metric).prices == prices


def test_at_no_price_the_likeliest_is_chosen() -> None:
    """λ = 0 is the top of the staircase, λ = ∞ its foot; an equal arm that costs more is on neither."""
    stairs = staircase(offer((0.5, 1.0), (0.9, 2.0), (0.9, 3.0)), Metric.COST_PER_REQUEST)
    assert (stairs.choose(0.0), stairs.choose(inf)) == (1, 0)
    assert stairs.prices == (1.0, 2.0)
    assert stairs.chances(0.0, 0.1) == (0.0, 1.0)


def test_a_gain_too_small_to_price_is_no_step() -> None:
    """A gain of one unit in the last place, or a price beyond all measure, makes no step and no error."""
    assert staircase(offer((0.5, 1.0), (0.5 + 1e-16, 2.0)), Metric.COST_PER_REQUEST).arms == (0,)
    assert staircase(offer((0.5, 0.0), (0.9, 5e-324)), Metric.COST_PER_REQUEST).log_rises == (log(1e300),)


@pytest.mark.parametrize("wrong", [float("nan"), inf, -1.0])
def test_an_offer_of_nonsense_is_refused(wrong: float) -> None:
    """What would poison every mean of the window does not get into it."""
    with pytest.raises(ValueError, match="finite and at least 0"):
        offer((0.5, wrong))
    with pytest.raises(ValueError, match="at least one arm"):
        Offer(arms=())
