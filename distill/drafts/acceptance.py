"""How often a target takes a draft's tokens, by place in a round and by domain, from the target's own text.

Speculative sampling (arXiv:2211.17192, algorithm 1) takes a drafted x ~ q with chance min(1, p(x) / q(x)), and else
draws from max(0, p − q), normalised. So a round whose prefix is known writes y as a taken draft with probability
min(p(y), q(y)) and as the target's own with max(0, p(y) − q(y)); the sum is p(y). Seen from the text, which is the
target's: its token y was a taken draft with chance

    min(1, q(y) / p(y))

apart from what becomes of the others, as long as the round lasts. These chances say everything: walking a text with
them, by coins or in expectation, has the distribution of rounds that real draft-and-verify of this text has, and needs
each model once (`tests/distill/drafts/test_acceptance.py` counts both). A draft that always proposes one token,
greedily or looked up, has q(y) 1 or 0; at temperature 0, p has too.

The mean of min(1, q(y) / p(y)) over y ~ p is Σ min(p, q), which has less noise: it is reported where q is known whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from operator import mul
from typing import Any, Protocol

import torch
from torch import Tensor

from distill.calibration import CalibrationText


@dataclass(frozen=True, slots=True)
class Chances:
    """What a draft is worth on one text: T tokens (`CalibrationText.drafted`), places 1 … γ of a round."""

    taken: Tensor
    """(T, γ), in [0, 1]: that this token is a taken draft, were it the j-th of its round and all before it taken. 0
    where nothing was proposed."""
    expected: Tensor | None
    """(T, γ): Σ min(p, q) there; None where the draft proposes single tokens."""
    agrees: Tensor
    """(T, γ), bool: the draft's likeliest token is the target's likeliest."""
    is_proposed: Tensor
    """(T, γ), bool: the draft proposes anything."""


class Draft(Protocol):
    """Something that guesses: `model_draft`, `ngram`, `head_draft`."""

    def chances(self, text: CalibrationText, num_drafts: int) -> Chances:
        """What it is worth on this text, with `num_drafts` a round."""
        ...


@dataclass(frozen=True, slots=True)
class PlaceScore:
    """One place of a round; means over the tokens of a domain's answers at which a round could reach it."""

    expected: float
    """Σ min(p, q), or the share of single proposals that are taken; in [0, 1]. Text that real rounds reach this place
    with is easier than all text, so `conditional` is higher as a rule."""
    agreement: float
    """Same likeliest token; in [0, 1]."""
    conditional: float
    """Of the rounds that come this far, how many go on: a_j of the cost model; 0 where none does."""
    proposed_share: float


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A draft on one domain."""

    domain: str
    num_texts: int
    num_tokens: int
    num_rounds: float
    """Verifications that the answers take, in expectation."""
    places: tuple[PlaceScore, ...]

    @property
    def block_efficiency(self) -> float:
        """Tokens of a round, the target's own included; answers' ends cut the last round of each short."""
        return self.num_tokens / self.num_rounds

    @property
    def rates(self) -> list[float]:
        """a₁ … a_γ, as `cost_model.predict` takes them."""
        return [place.conditional for place in self.places]

    def as_json(self) -> dict[str, Any]:
        """Members and `block_efficiency`."""
        return {**asdict(self), "block_efficiency": self.block_efficiency}


def measure(draft: Draft, texts: Iterable[CalibrationText], num_drafts: int) -> list[Acceptance]:
    """Acceptance on each domain, in the order in which the texts bring them.

    Raises:
        ValueError: no text has anything to draft.
    """
    found: dict[str, list[Chances]] = defaultdict(list)
    for text in texts:
        if text.drafted:
            found[text.domain].append(draft.chances(text, num_drafts))
    if not found:
        raise ValueError(
            "no answer has a second token, which would be the first to draft; name other domains, without tools"
        )
    return [_of_domain(domain, chances, num_drafts) for domain, chances in found.items()]


def begins(taken: Tensor) -> Tensor:
    """(T,): how likely a round begins at each token; their sum is the expected number of rounds of the text.

    Args:
        taken: (T, γ), of `Chances`.
    """
    num_tokens, num_drafts = taken.shape
    # a round that begins at i reaches i + k with k drafts taken, and the k-th refusal, or the end, begins one behind it
    begun = [0.0] * (num_tokens + num_drafts + 1)
    begun[0] = 1.0
    chances = taken.tolist()
    for start in range(num_tokens):
        alive = begun[start]
        for place in range(num_drafts + 1):
            token = start + place
            goes_on = chances[token][place] if token < num_tokens and place < num_drafts else 0.0
            begun[token + 1] += alive * (1 - goes_on)
            alive *= goes_on
            if not alive:
                break
    return torch.tensor(begun[:num_tokens], dtype=torch.float64)


def rounds_of(taken: Tensor, coins: Sequence[float]) -> list[int]:
    """One walk: how many tokens each round of a text gives.

    Args:
        taken: (T, γ), of `Chances`.
        coins: uniform in [0, 1), at least T.
    """
    num_tokens, num_drafts = taken.shape
    rounds: list[int] = []
    start = 0
    while start < num_tokens:
        end = start
        while end < num_tokens and end - start < num_drafts and coins[end] < float(taken[end, end - start]):
            end += 1
        end = min(end + 1, num_tokens)  # the target's own token
        rounds.append(end - start)
        start = end
    return rounds


def _of_domain(domain: str, chances: Sequence[Chances], num_drafts: int) -> Acceptance:
    starts = [begins(each.taken) for each in chances]
    places = tuple(_place(chances, starts, place) for place in range(num_drafts))
    return Acceptance(
        domain=domain,
        num_texts=len(chances),
        num_tokens=sum(len(each.taken) for each in chances),
        num_rounds=float(sum(start.sum() for start in starts)),
        places=places,
    )


def _place(chances: Sequence[Chances], starts: Sequence[Tensor], place: int) -> PlaceScore:
    reached = gone_on = 0.0
    for each, start in zip(chances, starts, strict=True):
        for token, likely in enumerate(start.tolist()):
            if not likely or token + place >= len(start):
                continue
            path = [float(each.taken[token + before, before]) for before in range(place + 1)]
            *_, before, through = accumulate([1.0, *path], mul)
            reached += likely * before
            gone_on += likely * through
    rows = [
        each.taken[place:, place] if each.expected is None else each.expected[place:, place]
        for each in chances
    ]
    agrees = torch.cat([each.agrees[place:, place] for each in chances]).double()
    proposed = torch.cat([each.is_proposed[place:, place] for each in chances]).double()
    expected = torch.cat(rows).double()
    return PlaceScore(
        expected=float(expected.mean()) if len(expected) else 0.0,
        agreement=float(agrees.mean()) if len(agrees) else 0.0,
        conditional=gone_on / reached if reached else 0.0,
        proposed_share=float(proposed.mean()) if len(proposed) else 0.0,
    )
