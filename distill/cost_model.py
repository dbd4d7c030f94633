"""Whether a draft pays: the speed-up of draft-and-verify from measured times and measured acceptance.

With γ tokens drafted a round, c a draft step and v the verification, both in target steps (arXiv:2211.17192, theorem
3.8, where v is 1):

    speed-up = E / (γ c + v),    E = 1 + a₁ + a₁ a₂ + … + a₁ … a_γ

E is the mean number of tokens of a round: a_j is the chance that the j-th draft is taken where all before it were, and
the 1 is the target's own token behind them. With one a for all, E = (1 − a^(γ+1)) / (1 − a).

A draft that often proposes nothing, as look-ups do, costs only in the share s of the rounds in which it does; the rest
are steps of one token. a₁ is of all rounds, those without a proposal among them:

    speed-up = E / (s (γ c + v) + 1 − s)

Assumed:

- a round drafts, then verifies; nothing overlaps, and a round that drafts drafts γ tokens, however unsure the draft is;
- with one a: the chances are alike and independent, whatever the place and whatever was taken before;
- with S streams all of them draft and verify together: a draft step has S tokens, the verification S (γ + 1). Each is
  timed at that width, so that v grows as the machine's arithmetic fills up;
- verifying k tokens of one stream takes as long as one token each of k streams (`steps`): the same products and as many
  tokens chosen, though their keys and values are fewer;
- times are those of the contexts they were measured at.

Nothing here measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from pydantic import Field

from serving.engines.base import SettingsNode

_HALVINGS = 60  # of [0, 1]: beyond double precision


class MissingTimeError(LookupError):
    """A step was not timed at a width that is asked for; the message says at which."""


class UnprofitableDraftError(Exception):
    """A draft that makes no domain faster; the message has the reason, `Verdict` the table."""


class StepTimes(SettingsNode):
    """Seconds of one step of the target and of the draft, by the tokens in it: what `cost-model` measures and reads."""

    engine: str
    """Where they were taken, in words."""
    target_s: dict[int, float] = Field(min_length=1)
    """Tokens in a step → seconds, each token with logits."""
    draft_s: dict[int, float] = Field(min_length=1)
    """The same of the draft; of n-grams, a look-up's time."""

    def draft_cost(self, num_streams: int) -> float:
        """c.

        Raises:
            MissingTimeError: not timed at this width.
        """
        return _at(self.draft_s, num_streams, "draft") / _at(self.target_s, num_streams, "target")

    def verify_cost(self, num_streams: int, num_drafts: int) -> float:
        """v, at least 1: where more tokens took less time than fewer, the clock was disturbed.

        Raises:
            MissingTimeError: not timed at these widths.
        """
        width = num_streams * (num_drafts + 1)
        return max(1.0, _at(self.target_s, width, "target") / _at(self.target_s, num_streams, "target"))


@dataclass(frozen=True, slots=True)
class Prediction:
    """One number of drafts at one number of streams."""

    num_streams: int
    num_drafts: int
    """γ."""
    draft_cost: float
    verify_cost: float
    break_even: float | None
    """The least acceptance, one for all places, that is no slower where every round drafts; 0 where any is, None where
    even 1 is too little."""
    speed_ups: Mapping[str, float]
    """By domain; 1 is without the draft."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was asked for, and whether any of it pays."""

    predictions: tuple[Prediction, ...]

    def best(self, domain: str, num_streams: int) -> Prediction:
        """The number of drafts that is fastest there."""
        at = [each for each in self.predictions if each.num_streams == num_streams]
        return max(at, key=lambda each: each.speed_ups[domain])

    @property
    def paying(self) -> dict[str, list[int]]:
        """Domain → the numbers of streams at which some number of drafts is faster than none."""
        found: dict[str, list[int]] = {}
        for each in self.predictions:
            for domain, speed_up in each.speed_ups.items():
                if speed_up > 1 and each.num_streams not in found.setdefault(domain, []):
                    found[domain].append(each.num_streams)
        return {domain: streams for domain, streams in found.items() if streams}

    def require_paying(self) -> None:
        """Refuse a draft that pays nowhere.

        Raises:
            UnprofitableDraftError: with what is nearest to paying.
        """
        if self.paying:
            return
        speed_up, domain, near = max(
            (
                (speed_up, domain, each)
                for each in self.predictions
                for domain, speed_up in each.speed_ups.items()
            ),
            key=lambda found: found[0],
        )
        needed = (
            "no acceptance would do"
            if near.break_even is None
            else f"acceptance would have to be {near.break_even:.2f}"
        )
        raise UnprofitableDraftError(
            f"this draft pays nowhere: at best {speed_up:.2f}× ({domain}, {near.num_streams} streams, "
            f"{near.num_drafts} drafts a round), and there {needed}; take a cheaper draft, or serve without"
        )


def expected_tokens(rates: Sequence[float]) -> float:
    """E: 1 + Σ_k Π_{j ≤ k} a_j, of the chances at each place of a round."""
    return 1 + sum(accumulate(rates, mul))


def speed_up(
    rates: Sequence[float], *, draft_cost: float, verify_cost: float, proposed_share: float = 1.0
) -> float:
    """E / (s (γ c + v) + 1 − s), γ being the number of rates and s the share of rounds that draft."""
    drafting = len(rates) * draft_cost + verify_cost
    return expected_tokens(rates) / (proposed_share * drafting + 1 - proposed_share)


def break_even(num_drafts: int, *, draft_cost: float, verify_cost: float) -> float | None:
    """The acceptance, alike at all places, at which the speed-up is 1; 0 where it never is less, None where always."""
    cost = num_drafts * draft_cost + verify_cost
    if cost > num_drafts + 1:
        return None
    low, high = 0.0, 1.0
    if cost <= 1:
        return low
    for _ in range(_HALVINGS):  # E rises with the acceptance
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens([middle] * num_drafts) >= cost else (middle, high)
    return high


def predict(
    times: StepTimes,
    acceptance: Mapping[str, Sequence[float]],
    *,
    nums_drafts: Sequence[int],
    nums_streams: Sequence[int],
    proposed_shares: Mapping[str, float] | None = None,
) -> Verdict:
    """Every number of drafts at every number of streams.

    Args:
        times: measured.
        acceptance: domain → chances at the first, second … place; the last holds for all places behind it.
        nums_drafts: values of γ, each at least 1.
        nums_streams: answered at once.
        proposed_shares: domain → share of rounds in which anything is proposed; 1 where absent.

    Raises:
        MissingTimeError: not timed at a width that is needed.
        ValueError: there is nothing to predict for, or a chance is none.
    """
    if not acceptance or not all(acceptance.values()) or min(*nums_drafts, *nums_streams, 1) < 1:
        raise ValueError("name a domain with its acceptance, and drafts and streams of at least 1")
    shares = dict.fromkeys(acceptance, 1.0) | dict(proposed_shares or {})
    chances = {domain: (*rates, shares[domain]) for domain, rates in acceptance.items()}
    if wrong := [domain for domain, found in chances.items() if not all(0 <= each <= 1 for each in found)]:
        raise ValueError(f"acceptance lies between 0 and 1; that of {wrong[0]} does not")
    predictions = []
    for num_streams in nums_streams:
        for num_drafts in nums_drafts:
            draft_cost = times.draft_cost(num_streams)
            verify_cost = times.verify_cost(num_streams, num_drafts)
            speed_ups = {
                domain: speed_up(
                    _places(rates, num_drafts),
                    draft_cost=draft_cost,
                    verify_cost=verify_cost,
                    proposed_share=shares[domain],
                )
                for domain, rates in acceptance.items()
            }
            needed = break_even(num_drafts, draft_cost=draft_cost, verify_cost=verify_cost)
            predictions.append(
                Prediction(num_streams, num_drafts, draft_cost, verify_cost, needed, speed_ups)
            )
    return Verdict(tuple(predictions))


def widths(nums_drafts: Sequence[int], nums_streams: Sequence[int]) -> list[int]:
    """Of the target's steps that have to be timed, rising; the draft's are the numbers of streams."""
    return sorted({each * more for each in nums_streams for more in (1, *(num + 1 for num in nums_drafts))})


def _places(rates: Sequence[float], num: int) -> list[float]:
    return [*rates[:num], *[rates[-1]] * (num - len(rates))]


def _at(times: Mapping[int, float], width: int, whose: str) -> float:
    if width not in times:
        raise MissingTimeError(
            f"a {whose} step of {width} tokens was not timed, only {', '.join(map(str, sorted(times)))}; measure again "
            "with these drafts and streams"
        )
    return times[width]
