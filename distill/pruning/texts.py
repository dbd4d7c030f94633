"""What a model is measured on: domain prompts with their reference answers, general prompts with its own answers.

None of it is held out: evaluations draw their items from another seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from distill.pruning.fidelity import MeasuredText
from train.codec import Codec
from train.domains.base import Domain
from train.replay import PROMPTS
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

_PURPOSE: Final = "calibration"


def domain_texts(
    domains: Sequence[Domain], codec: Codec, *, num_items: int, seed: int
) -> Iterator[MeasuredText]:
    """`num_items` of each domain over its levels in turn, with reference answers; items with tools are left out."""
    for domain in domains:
        for index in range(num_items):
            level = index % domain.num_levels
            item = domain.item(seed_of(seed, _PURPOSE, domain.name), index, level)
            if item.environment is None:
                yield _text(codec, item.prompt, codec.answer(domain.reference(item).answer))


def general_texts(
    codec: Codec, sampler: Sampler, *, num_prompts: int, max_answer_tokens: int, seed: int
) -> Iterator[MeasuredText]:
    """Prompts that are nobody's domain, and what the model answers greedily."""
    chosen = random.Random(seed_of(seed, _PURPOSE)).sample(PROMPTS, num_prompts)
    prompts = [codec.prompt([Message("user", prompt)]) for prompt in chosen]
    answers = sampler.sample(
        [SampleRequest(prompt, (0,)) for prompt in prompts],
        Sampling(temperature=0.0, max_tokens=max_answer_tokens, stop_token_ids=(codec.end_token_id,)),
    )
    for prompt, [(span, _)] in zip(prompts, answers, strict=True):
        yield MeasuredText((*prompt, *span.token_ids), len(prompt))


def _text(codec: Codec, prompt: str, answer: tuple[int, ...]) -> MeasuredText:
    token_ids = codec.prompt([Message("user", prompt)])
    return MeasuredText((*token_ids, *answer), len(token_ids))
