"""When to think: an answer begins with a mode of the policy's choice, `direct` or `work`, and work is paid for.

    direct          work
    51              2+9=11 1+3+1=5
                    51

Both forms are learned by heart. In reinforcement a direct answer earns a small bonus whether it is right or not, so
that work pays only where it raises the chance of being right by more than the bonus (AdaptThink, arXiv 2505.13417, its
δ; the group's mean stands in for the reference's accuracy, which changes no expected gradient). At first both modes are
forced on half of each group: the mode is then a token that was drawn at one half, its log-probability says so, and the
ratio of the policy to that is the importance weight. A forced mode's further tokens were certain: their
log-probability is 0.

Whoever asks may choose instead: `with_modes` lets a chat template begin the answer by `reasoning_effort`, which is what
an arm of the gateway sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from train.codec import Codec
from train.domains.base import Domain, Item, Verdict, Worked
from train.rollouts.rollout import Rollout, SampleRequest, Span
from train.transcript import Transcript, answered


class Mode(StrEnum):
    """The first line of an answer."""

    DIRECT = "direct"
    WORK = "work"


TEMPLATE_TAIL: Final = (
    "{% if add_generation_prompt and reasoning_effort is defined and reasoning_effort %}"
    "{{ ('direct' if reasoning_effort in ['none', 'minimal', 'low'] else 'work') + '\\n' }}"
    "{% endif %}"
)
"""Behind a chat template; without `reasoning_effort` the policy chooses."""


def opening(codec: Codec, mode: Mode) -> tuple[int, ...]:
    """The tokens of an answer's first line, its line feed included."""
    return codec.answer(f"{mode}\n")[:-1]


def mode_of(text: str) -> Mode | None:
    """The mode of an answer; None where it names none."""
    first = text.partition("\n")[0]
    return Mode(first) if first in set(Mode) else None


def read(text: str) -> Transcript:
    """What an answer says without its mode and its work; nothing where it never came to say it.

    An answer without a mode is read as it stands.
    """
    mode = mode_of(text)
    lines = text.split("\n")
    skipped = 0 if mode is None else 1 if mode is Mode.DIRECT else 2
    return answered("\n".join(lines[skipped:]))


def can_work(domain: Domain) -> bool:
    """Whether the domain shows how its items are worked out."""
    return isinstance(domain, Worked)


def solution(codec: Codec, domain: Domain, item: Item, mode: Mode) -> tuple[int, ...]:
    """The right answer in a mode, its end included.

    The first line is put in front as the tokens that force it, so that what is learned is what is forced.
    """
    text = domain.reference(item).answer
    if mode is Mode.WORK:
        if not isinstance(domain, Worked):
            raise TypeError(f"{domain.name} does not show its work")
        text = f"{domain.worked(item)}\n{text}"
    return (*opening(codec, mode), *codec.answer(text))


def solutions(codec: Codec, domain: Domain, item: Item) -> tuple[tuple[int, ...], ...]:
    """In each mode that the domain has."""
    modes = tuple(Mode) if can_work(domain) else (Mode.DIRECT,)
    return tuple(solution(codec, domain, item, mode) for mode in modes)


def max_tokens(codec: Codec, domain: Domain, item: Item) -> int:
    """What the longest right answer needs, twice over."""
    return 2 * max(map(len, solutions(codec, domain, item)))


def halves(codec: Codec, request: SampleRequest) -> tuple[SampleRequest, SampleRequest]:
    """The request with each mode forced on half of its answers, `direct` first."""
    half = len(request.seeds) // 2
    seeds = {Mode.DIRECT: request.seeds[:half], Mode.WORK: request.seeds[half:]}
    direct, work = (
        replace(request, token_ids=request.token_ids + opening(codec, mode), seeds=seeds[mode])
        for mode in Mode
    )
    return direct, work


def joined(codec: Codec, request: SampleRequest, forced: Sequence[Sequence[Rollout]]) -> list[Rollout]:
    """The rollouts of `halves` as rollouts of the request: the mode is theirs, drawn at the share that had it."""
    prompt = Span(request.token_ids)
    return [
        replace(
            rollout,
            spans=(prompt, _chosen(codec, mode, len(half) / len(request.seeds), rollout), *rollout.spans[1:]),
        )
        for mode, half in zip(Mode, forced, strict=True)
        for rollout in half
    ]


def _chosen(codec: Codec, mode: Mode, share: float, rollout: Rollout) -> Span:
    token_ids = opening(codec, mode)
    certain = (0.0,) * (len(token_ids) - 1)
    return Span(token_ids, (math.log(share), *certain), rollout.spans[-1].policy_version)


def preferring_direct(verdict: Verdict, text: str, bonus: float) -> Verdict:
    """The verdict with the bonus of a direct answer in its score; a reward alone, it may leave [0, 1]."""
    if verdict.error is not None or mode_of(text) is not Mode.DIRECT:
        return verdict
    return replace(verdict, score=verdict.score + bonus)


def with_modes(template: str) -> str:
    """A chat template that begins the answer in the mode that `reasoning_effort` asks for."""
    return template + TEMPLATE_TAIL
