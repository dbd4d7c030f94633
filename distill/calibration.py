"""What models are measured and trained on here: prompts, and the answers to them that are read.

Prompts are items of domains, prompts of no domain, and what was asked of a gateway (`served_traffic`); answers are an
item's reference, or a model's own. What an evaluation holds out (`train.evaluate.held_out`) comes by `held_out_prompts`
and `held_out_prompts_of` alone: all others are drawn from another seed, and `without` leaves out what is the same text
by chance. Items with tools are left out everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from train.codec import Codec
from train.domains.base import Domain, Item
from train.evaluate import held_out
from train.general_prompts import PROMPTS
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

GENERAL: Final = "general"
"""The domain of prompts that are nobody's."""
NUM_AT_ONCE: Final = 64
"""Answers that are asked for in one call, so that a long list costs no memory."""
_PURPOSE: Final = "calibration"
_MAX_TRIES: Final = 16
"""For an item that is not held out; some domains have hardly more items than an evaluation asks."""


class Prompt(NamedTuple):
    """Something to answer."""

    domain: str
    name: str
    """Of its draw, unique."""
    text: str
    item: Item | None = None
    """Where it is a domain's."""


@dataclass(frozen=True, slots=True)
class CalibrationText:
    """A prompt and an answer, in tokens; the answer's tokens are what is measured at and learned from."""

    domain: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All of it."""
        return self.prompt + self.answer

    @property
    def drafted(self) -> tuple[int, ...]:
        """What drafts can be taken for: the answer behind its first token, which comes with the prompt."""
        return self.answer[1:]


def domain_prompts(
    domains: Sequence[Domain], num_items: int, *, seed: int, without: Set[str] = frozenset()
) -> list[Prompt]:
    """`num_items` of each domain over its levels in turn, or fewer where all others are among `without`."""
    return [
        prompt
        for domain in domains
        for index in range(num_items)
        if (prompt := drawn(domain, index, index % domain.num_levels, seed=seed, without=without))
    ]


def drawn(
    domain: Domain, index: int, level: int, *, seed: int, without: Set[str] = frozenset()
) -> Prompt | None:
    """The item of this draw, another in its place where it is among `without`; None where there is none."""
    for tried in range(_MAX_TRIES):
        item = domain.item(seed_of(seed, _PURPOSE, domain.name, tried), index, level)
        if item.environment is not None:
            return None
        if item.prompt not in without:
            return _of_item(item)
    return None


def held_out_prompts(domains: Sequence[Domain], num_items: int) -> list[Prompt]:
    """What evaluations ask: of each domain, over its levels in turn."""
    return held_out_prompts_of([(domain, range(domain.num_levels)) for domain in domains], num_items)


def held_out_prompts_of(domains: Iterable[tuple[Domain, Sequence[int]]], num_items: int) -> list[Prompt]:
    """The same over some of each domain's levels."""
    items = [item for domain, levels in domains for item in held_out(domain, levels, num_items)]
    return [_of_item(item) for item in items if item.environment is None]


def general_prompts(num_prompts: int, *, seed: int) -> list[Prompt]:
    """Prompts of no domain, at most as many as there are (`train.general_prompts`)."""
    chosen = random.Random(seed_of(seed, _PURPOSE)).sample(PROMPTS, num_prompts)
    return [Prompt(GENERAL, text, text) for text in chosen]


def referenced(
    prompts: Iterable[Prompt], domains: Mapping[str, Domain], codec: Codec
) -> Iterator[CalibrationText]:
    """Items with their reference answers; what is no item has none, and is passed over."""
    for prompt in prompts:
        if prompt.item is not None:
            answer = codec.answer(domains[prompt.domain].reference(prompt.item).answer)
            yield CalibrationText(prompt.domain, _tokens(prompt, codec), answer)


def answered(
    prompts: Iterable[Prompt],
    sampler: Sampler,
    codec: Codec,
    *,
    temperature: float,
    max_tokens: Callable[[Prompt], int],
    seed: int = 0,
) -> Iterator[CalibrationText]:
    """What a model says to each, once; an answer depends on weights, prompt and seed, not on what else is asked.

    Args:
        prompts: in any order.
        sampler: of the model.
        codec: the model's.
        temperature: 0 is greedy.
        max_tokens: of an answer.
        seed: of the draws.
    """
    sampling = Sampling(temperature=temperature, stop_token_ids=(codec.end_token_id,))
    waiting = iter(prompts)
    while batch := list(islice(waiting, NUM_AT_ONCE)):
        requests = [
            SampleRequest(_tokens(prompt, codec), (seed_of(seed, _PURPOSE, prompt.name),), max_tokens(prompt))
            for prompt in batch
        ]
        said = sampler.sample(requests, sampling)
        for prompt, request, [(span, _)] in zip(batch, requests, said, strict=True):
            if span.token_ids:
                yield CalibrationText(prompt.domain, request.token_ids, span.token_ids)


def _of_item(item: Item) -> Prompt:
    return Prompt(item.domain, item.id, item.prompt, item)


def _tokens(prompt: Prompt, codec: Codec) -> tuple[int, ...]:
    return codec.prompt([Message("user", prompt.text)])
