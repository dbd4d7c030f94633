"""What answers with a draft are against those without: the same tokens, sooner or later. Pure.

A draft must not change what is said. Yet a verification sums in another order than a step of one token, so where two
tokens are as good as equal the other one may come first. Such a difference is explained by the model itself: how far
apart it had the two, at the first token that differs. What is further apart than a tie is a defect.

Speed is compared prompt by prompt, on runs right after each other, where both answers have as many tokens: the ratio
of a prompt is the median over its rounds, that of a domain the median over its prompts, with the interval of
`tuning.evidence` (order statistics; none of fewer than six prompts). A draft pays where all of the interval of *whole
answers* is above 1: a model that drafts has to read the prompt too. What `cost-model` predicts is the time after the
first token, which stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

from loadtests.quantiles import Estimate
from loadtests.speculation.answers import Answer
from loadtests.tuning.evidence import interval, is_gain

ALL: Final = "all"
"""The row over every domain."""
_HALVINGS: Final = 60  # of [0, 1]: beyond double precision
Predictions = Mapping[str, float]
"""Domain → speed-up, of one draft at its number of tokens a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where an answer leaves the one without a draft."""

    position: int
    """Of the first token that differs."""
    gap: float | None
    """Nats between the two tokens there, as the model alone has them; None where one is not among the likeliest."""

    def is_tie(self, max_gap: float) -> bool:
        """Whether sums in another order explain it."""
        return self.gap is not None and self.gap <= max_gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One prompt: answers without and with one draft, by round."""

    domain: str
    alone: Sequence[Answer]
    drafted: Sequence[Answer]
    difference: Difference | None = None

    @property
    def is_timed(self) -> bool:
        """Whether both said as much in every round, more than one token."""
        lengths = {len(each.tokens) for each in (*self.alone, *self.drafted)}
        return len(lengths) == 1 and lengths != {1}

    @property
    def request_ratio(self) -> float:
        """How many times as fast whole answers are."""
        return median(one.request_s / other.request_s for one, other in self._rounds())

    @property
    def decode_ratio(self) -> float:
        """The same after the first token."""
        return median(one.decode_s / other.decode_s for one, other in self._rounds())

    def _rounds(self) -> list[tuple[Answer, Answer]]:
        return list(zip(self.alone, self.drafted, strict=True))


class Verdict(StrEnum):
    """Whether a draft is worth having."""

    PAYS = "pays"
    COSTS = "does not pay"
    UNSURE = "no gain beyond noise"
    DEFECT = "refused: answers differ beyond ties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One draft in one domain."""

    draft: str
    domain: str
    num_prompts: int
    num_same: int
    num_ties: int
    num_defects: int
    max_tie_gap: float | None
    """Nats; the widest that was taken for a tie."""
    acceptance: float | None
    """Accepted of drafted tokens; None where nothing was drafted."""
    accepted_share: float
    """Of all tokens said, those that had been drafted."""
    proposed_share: float
    """Of the model's steps, those that verified something, had each of them been proposed all that it may be."""
    decode: Estimate | None
    request: Estimate | None
    predicted: float | None
    verdict: Verdict


def first_difference(alone: Sequence[int], drafted: Sequence[int]) -> int | None:
    """The place of the first token that differs; None where there is none."""
    for place, (one, other) in enumerate(zip(alone, drafted, strict=False)):
        if one != other:
            return place
    return None if len(alone) == len(drafted) else min(len(alone), len(drafted))


def rows_of(
    draft: str, pairs: Sequence[Pair], predictions: Predictions, *, max_drafts: int, max_gap: float
) -> list[Row]:
    """A row for each domain in its order, and one for all where there are several.

    Args:
        draft: its name.
        pairs: of all prompts.
        predictions: what is to stand beside.
        max_drafts: γ, tokens proposed in one round.
        max_gap: nats; the widest tie.
    """
    domains = dict.fromkeys(pair.domain for pair in pairs)
    groups = [(domain, [pair for pair in pairs if pair.domain == domain]) for domain in domains]
    if len(groups) > 1:
        groups.append((ALL, list(pairs)))
    return [_row(draft, domain, found, predictions, max_drafts, max_gap) for domain, found in groups]


def alike_rate(acceptance: float, max_drafts: int) -> float:
    """The one chance a at every place with which γ proposed tokens have this share accepted: Σ a^k = γ · acceptance."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_less = sum(middle**place for place in range(1, max_drafts + 1)) < max_drafts * acceptance
        low, high = (middle, high) if is_less else (low, middle)
    return high


def _row(
    draft: str,
    domain: str,
    pairs: Sequence[Pair],
    predictions: Predictions,
    max_drafts: int,
    max_gap: float,
) -> Row:
    answers = [answer for pair in pairs for answer in pair.drafted]
    num_drafted = sum(each.num_drafted for each in answers)
    num_accepted = sum(each.num_accepted for each in answers)
    num_tokens = sum(len(each.tokens) for each in answers)
    differences = [pair.difference for pair in pairs if pair.difference is not None]
    ties = [each for each in differences if each.is_tie(max_gap)]
    timed = [pair for pair in pairs if pair.is_timed]
    request = interval([pair.request_ratio for pair in timed]) if timed else None
    return Row(
        draft=draft,
        domain=domain,
        num_prompts=len(pairs),
        num_same=len(pairs) - len(differences),
        num_ties=len(ties),
        num_defects=len(differences) - len(ties),
        max_tie_gap=max((each.gap for each in ties if each.gap is not None), default=None),
        acceptance=num_accepted / num_drafted if num_drafted else None,
        accepted_share=num_accepted / num_tokens,
        proposed_share=min(1.0, num_drafted / max_drafts / (num_tokens - num_accepted)),
        decode=interval([pair.decode_ratio for pair in timed]) if timed else None,
        request=request,
        predicted=predictions.get(domain),
        verdict=_verdict(request, has_defects=len(differences) > len(ties)),
    )


def _verdict(request: Estimate | None, *, has_defects: bool) -> Verdict:
    if has_defects:
        return Verdict.DEFECT
    if request is None or request.high is None:
        return Verdict.UNSURE
    if is_gain(request):
        return Verdict.PAYS
    return Verdict.COSTS if request.high <= 1 else Verdict.UNSURE


def paying(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Draft → the domains in which it pays; a draft with a defect anywhere is not among them."""
    refused = {row.draft for row in rows if row.verdict is Verdict.DEFECT}
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict is Verdict.PAYS and row.draft not in refused:
            found.setdefault(row.draft, []).append(row.domain)
    return found
