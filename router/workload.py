"""Synthetic traffic for the simulator: phases of arrivals with their difficulty, outages and prices, all from one seed.

Success follows the form of `router.difficulty`: a request of score s has difficulty h = 1 − e^(−s), and an arm succeeds
with probability 1 − h·miss. The forecasts are calibrated unless a phase says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Final

import numpy as np

from router.arms import Price
from router.offer import ArmOffer, Offer, Spend

SCORE_SHAPE: Final = 1.5
SCORE_SCALE: Final = 0.35
"""Of the gamma distribution of scores at difficulty 1: half of all requests are easier than h = 0.34."""
NUM_PROMPT_TOKENS: Final = 300.0
NUM_OUTPUT_TOKENS: Final = 120.0
TOKENS_SIGMA: Final = 0.7
"""Median and log-deviation of the expected tokens."""
REALISED_SIGMA: Final = 0.5
"""Log-deviation of the real number of output tokens from the expected one, whose mean it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticArm:
    """An arm of the synthetic stack."""

    name: str
    miss: float
    """The chance that it fails the hardest request."""
    price: Price
    seconds_per_token: float
    is_full: bool = False
    """Of the strongest tier."""


FAST: Final = SyntheticArm(
    name="fast", miss=0.95, price=Price(input=0.2, output=0.8), seconds_per_token=0.004
)
FULL: Final = SyntheticArm(
    name="full", miss=0.15, price=Price(input=1.0, output=4.0), seconds_per_token=0.02, is_full=True
)
TWO_TIERS: Final = (FAST, FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of traffic."""

    duration_s: float
    requests_per_second: float
    """Of Poisson arrivals; 0 is silence."""
    difficulty: float = 1.0
    """Multiplies every score."""
    seen_difficulty: float | None = None
    """What the forecasts take the difficulty to be, where they miss a change."""
    down: frozenset[str] = frozenset()
    """Arms without a replica."""
    realised_over_expected: float = 1.0
    """By how much answers are longer than forecast."""
    forced_full_share: float = 0.0
    """Share of requests whose client asks for the strongest tier."""
    num_prompts: int | None = None
    """So many distinct requests, repeated at random; None for no two alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with all that would come of each of its arms."""

    at: float
    offer: Offer
    names: tuple[str, ...]
    """Of the arms, in the offer's order; the members below are in the same."""
    realised: tuple[Spend, ...]
    succeeds: tuple[bool, ...] | None
    """None where nobody knows, as in a ledger."""


def traffic(
    phases: Sequence[Phase],
    arms: Sequence[SyntheticArm],
    rng: np.random.Generator,
    *,
    quality_floor: float = 0.0,
) -> Iterator[Request]:
    """The requests of all phases in order of time. One that no arm could answer is left out."""
    began = 0.0
    for phase in phases:
        scores = rng.gamma(SCORE_SHAPE, SCORE_SCALE, phase.num_prompts) if phase.num_prompts else None
        at = began
        while phase.requests_per_second > 0:
            at += rng.exponential(1 / phase.requests_per_second)
            if at >= began + phase.duration_s:
                break
            score = rng.gamma(SCORE_SHAPE, SCORE_SCALE) if scores is None else rng.choice(scores)
            request = _request(at, float(score), phase, arms, rng, quality_floor)
            if request is not None:
                yield request
        began += phase.duration_s


def _request(
    at: float,
    score: float,
    phase: Phase,
    arms: Sequence[SyntheticArm],
    rng: np.random.Generator,
    quality_floor: float,
) -> Request | None:
    is_forced = bool(rng.random() < phase.forced_full_share)
    tokens = rng.lognormal(np.log((NUM_PROMPT_TOKENS, NUM_OUTPUT_TOKENS)), TOKENS_SIGMA)
    surprise = rng.lognormal(-(REALISED_SIGMA**2) / 2, REALISED_SIGMA) * phase.realised_over_expected
    luck = rng.random()  # one draw for all arms: a stronger one never fails where a weaker one succeeds
    wanted = [arm for arm in arms if arm.is_full or not is_forced]
    open_to = [arm for arm in wanted if arm.name not in phase.down]
    if not open_to:
        return None
    seen = phase.difficulty if phase.seen_difficulty is None else phase.seen_difficulty
    offered = tuple(
        ArmOffer(success_probability=_success(arm, score * seen), expected=_spend(arm, *tokens))
        for arm in open_to
    )
    return Request(
        at=at,
        offer=Offer(arms=offered, quality_floor=quality_floor, is_curtailed=len(open_to) < len(wanted)),
        names=tuple(arm.name for arm in open_to),
        realised=tuple(_spend(arm, tokens[0], tokens[1] * surprise) for arm in open_to),
        succeeds=tuple(luck < _success(arm, score * phase.difficulty) for arm in open_to),
    )


def _success(arm: SyntheticArm, score: float) -> float:
    return 1 - (1 - exp(-score)) * arm.miss


def _spend(arm: SyntheticArm, num_input_tokens: float, num_output_tokens: float) -> Spend:
    return Spend(
        cost=arm.price.cost(
            num_input_tokens=float(num_input_tokens), num_output_tokens=float(num_output_tokens)
        ),
        engine_seconds=float(num_output_tokens) * arm.seconds_per_token,
        full_share=float(arm.is_full),
    )
