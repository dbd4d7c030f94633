"""What drafts are measured and trained on: a target's own answers, for a draft has to guess the target and nobody else.

Measured texts come from the items that every evaluation holds out (`train.evaluate.held_out`); training texts from
another seed. Items with tools are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from train.codec import Codec
from train.domains.base import Domain, Item
from train.evaluate import held_out
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

_PURPOSE: Final = "drafts"


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


def measured_items(domains: Sequence[Domain], num_items: int) -> dict[str, list[Item]]:
    """Held-out items of each domain, over its levels in turn."""
    return {domain.name: _plain(held_out(domain, range(domain.num_levels), num_items)) for domain in domains}


def training_items(domains: Sequence[Domain], num_items: int, seed: int) -> dict[str, list[Item]]:
    """Items of each domain that no evaluation has."""
    return {
        domain.name: _plain(
            [
                domain.item(seed_of(seed, _PURPOSE, domain.name), index, index % domain.num_levels)
                for index in range(num_items)
            ]
        )
        for domain in domains
    }


def answers_of(
    sampler: Sampler,
    codec: Codec,
    items: Mapping[str, Sequence[Item]],
    *,
    temperature: float,
    max_answer_tokens: int,
    seed: int = 0,
    num_at_once: int = 64,
) -> Iterator[DraftText]:
    """What the target says to items, one answer each; asked for in batches, so that a long list costs no memory."""
    sampling = Sampling(
        temperature=temperature, max_tokens=max_answer_tokens, stop_token_ids=(codec.end_token_id,)
    )
    asked = [(domain, item) for domain, of_domain in items.items() for item in of_domain]
    for start in range(0, len(asked), num_at_once):
        batch = [
            (domain, item, codec.prompt([Message("user", item.prompt)]))
            for domain, item in asked[start : start + num_at_once]
        ]
        requests = [SampleRequest(prompt, (seed_of(seed, _PURPOSE, item.id),)) for _, item, prompt in batch]
        for (domain, _, prompt), [(span, _)] in zip(batch, sampler.sample(requests, sampling), strict=True):
            if span.token_ids:
                yield DraftText(domain, prompt, span.token_ids)


def _plain(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.environment is None]
