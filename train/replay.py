"""What the base says to prompts that are nobody's domain, kept by heart while domains are learned.

A small policy that learns terse answers soon answers everything tersely. Its own first words, drawn once from the base
weights, are mixed into the steps against that: the cross-entropy to a model's own samples is, but for a constant, its
divergence from that model (forward Kullback-Leibler), so nothing is taught here that the base did not say.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from train.batch import Group
from train.codec import Codec
from train.credit import by_heart
from train.general_prompts import PROMPTS, QUESTIONS
from train.recipe import ReplaySettings
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

DOMAIN: Final = "replay"
"""What its groups are called."""
TEMPERATURE: Final = 0.7
QUESTION_TOKENS: Final = 24


class Replay:
    """The base's words, and which of them a step hears.

    Args:
        settings: how many.
        codec: the policy's.
        sampler: draws from the base: made before any weight has moved, or was read from a checkpoint.
        seed: of the run.
    """

    def __init__(self, settings: ReplaySettings, codec: Codec, sampler: Sampler, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        self._codec = codec
        drawn = random.Random(seed_of(seed, "replay"))
        prompts = drawn.sample(PROMPTS, settings.num_prompts)
        self._groups = self._heard(prompts, sampler, settings.max_answer_tokens, settings.token_weight)
        if settings.num_questions:
            questions = drawn.sample(QUESTIONS, settings.num_questions)
            self._groups += self._heard(questions, sampler, QUESTION_TOKENS, 1.0)

    def _heard(
        self, prompts: Sequence[str], sampler: Sampler, max_tokens: int, token_weight: float
    ) -> list[Group]:
        """What the base says to them, as groups to learn by heart."""
        tokens = [self._codec.prompt([Message("user", prompt)]) for prompt in prompts]
        said = sampler.sample(
            [SampleRequest(prompt, (seed_of(self._seed, "replay", *prompt),)) for prompt in tokens],
            Sampling(
                temperature=TEMPERATURE, max_tokens=max_tokens, stop_token_ids=(self._codec.end_token_id,)
            ),
        )
        return [
            by_heart(DOMAIN, prompt, span.token_ids, token_weight)
            for prompt, [(span, _)] in zip(tokens, said, strict=True)
        ]

    def groups(self, phase: str, number: int, num_prompts: int) -> Sequence[Group]:
        """What step `number` of a phase hears beside its `num_prompts` prompts."""
        drawn = random.Random(seed_of(self._seed, "replay", phase, number))
        return drawn.sample(self._groups, min(len(self._groups), round(self._settings.share * num_prompts)))
