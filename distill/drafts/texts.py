"""What drafts are measured and trained on: a target's own answers, for a draft has to guess the target and nobody else.

Measured texts come from the items that every evaluation holds out (`train.evaluate.held_out`); training texts from
another seed, and from prompts that are nobody's domain. Items with tools are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from train.codec import Codec
from train.domains.base import Domain, Item
from train.evaluate import held_out
from train.replay import PROMPTS
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

GENERAL: Final = "general"
"""What prompts of no domain are called."""
_PURPOSE: Final = "drafts"


class Prompt(NamedTuple):
    """Something to answer."""

    name: str
    """Its draw's, unique."""
    text: str


@dataclass(frozen=True, slots=True)
class DraftText:
    """A prompt and what the target answered."""

    domain: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    """Drawn from the target at the temperature that acceptance is measured at; at least one token."""

    @property
    def drafted(self) -> tuple[int, ...]:
        """What drafts can be taken for: the answer behind its first token, which comes with the prompt."""
        return self.answer[1:]


def measured_prompts(domains: Sequence[Domain], num_items: int) -> dict[str, list[Prompt]]:
    """Held-out prompts of each domain, over its levels in turn."""
    return {domain.name: _plain(held_out(domain, range(domain.num_levels), num_items)) for domain in domains}


def training_prompts(
    domains: Sequence[Domain], num_items: int, *, num_general: int, seed: int
) -> dict[str, list[Prompt]]:
    """Prompts of each domain that no evaluation has, and general ones."""
    found = {
        domain.name: _plain(
            [
                domain.item(seed_of(seed, _PURPOSE, domain.name), index, index % domain.num_levels)
                for index in range(num_items)
            ]
        )
        for domain in domains
    }
    chosen = random.Random(seed_of(seed, _PURPOSE)).sample(PROMPTS, num_general)
    return found | {GENERAL: [Prompt(text, text) for text in chosen]}


def answers_of(
    sampler: Sampler,
    codec: Codec,
    prompts: Mapping[str, Sequence[Prompt]],
    *,
    temperature: float,
    max_answer_tokens: int,
    seed: int = 0,
    num_at_once: int = 64,
) -> Iterator[DraftText]:
    """What the target says, one answer to each; asked for in batches, so that a long list costs no memory."""
    sampling = Sampling(
        temperature=temperature, max_tokens=max_answer_tokens, stop_token_ids=(codec.end_token_id,)
    )
    asked = [(domain, prompt) for domain, of_domain in prompts.items() for prompt in of_domain]
    for start in range(0, len(asked), num_at_once):
        batch = [
            (domain, prompt.name, codec.prompt([Message("user", prompt.text)]))
            for domain, prompt in asked[start : start + num_at_once]
        ]
        requests = [SampleRequest(tokens, (seed_of(seed, _PURPOSE, name),)) for _, name, tokens in batch]
        for (domain, _, tokens), [(span, _)] in zip(batch, sampler.sample(requests, sampling), strict=True):
            if span.token_ids:
                yield DraftText(domain, tokens, span.token_ids)


def _plain(items: Sequence[Item]) -> list[Prompt]:
    return [Prompt(item.id, item.prompt) for item in items if item.environment is None]
