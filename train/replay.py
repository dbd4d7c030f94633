"""What the base says to prompts that are nobody's domain, kept by heart while domains are learned.

A small policy that learns terse answers soon answers everything tersely. Its own first words, drawn once from the base
weights, are mixed into the steps against that: the cross-entropy to a model's own samples is, but for a constant, its
divergence from that model (forward Kullback-Leibler), so nothing is taught here that the base did not say.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Final

from train.batch import Group
from train.codec import Codec
from train.credit import by_heart
from train.recipe import ReplaySettings
from train.rollouts.rollout import Sampler, SampleRequest, Sampling
from train.seeds import seed_of
from train.transcript import Message

DOMAIN: Final = "replay"
"""What its groups are called."""
TEMPERATURE: Final = 0.7
FORMS: Final = (
    "What is {}?",
    "Explain {} to a child.",
    "Tell me something interesting about {}.",
    "Write two sentences about {}.",
    "Write a short poem about {}.",
    "Give me three tips about {}.",
    "Why do people care about {}?",
    "Summarise the history of {} briefly.",
    "Write a friendly note to a colleague about {}.",
    "How would you begin a story about {}?",
    "What should a beginner know about {}?",
    "List five words that have to do with {}.",
)
TOPICS: Final = (
    "rain", "bicycles", "bread", "the moon", "volcanoes", "chess", "gardening", "whales", "tea", "sleep", "bridges",
    "music", "photosynthesis", "gravity", "libraries", "mountains", "maps", "cooking rice", "painting", "trains",
    "the ocean", "friendship", "computers", "birds", "winter", "coffee", "money", "running", "glass", "stars",
    "markets", "clocks", "forests", "kites", "languages", "electricity", "cheese", "deserts", "schools", "email",
)  # fmt: skip
GREETINGS: Final = (
    "Hello!", "Hi, how are you?", "Good morning.", "Who are you?", "What can you do?", "Thank you!", "Can you help me?",
    "Say hello.", "Tell me a joke.", "I am bored.", "What should I cook tonight?", "Goodbye.",
)  # fmt: skip
PROMPTS: Final = (*GREETINGS, *(form.format(topic) for form, topic in product(FORMS, TOPICS)))


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
        chosen = random.Random(seed_of(seed, "replay")).sample(PROMPTS, settings.num_prompts)
        prompts = [codec.prompt([Message("user", prompt)]) for prompt in chosen]
        drawn = sampler.sample(
            [SampleRequest(prompt, (seed_of(seed, "replay", *prompt),)) for prompt in prompts],
            Sampling(
                temperature=TEMPERATURE,
                max_tokens=settings.max_answer_tokens,
                stop_token_ids=(codec.end_token_id,),
            ),
        )
        self._groups = [
            by_heart(DOMAIN, prompt, span.token_ids, settings.token_weight)
            for prompt, [(span, _)] in zip(prompts, drawn, strict=True)
        ]

    def groups(self, phase: str, number: int, num_prompts: int) -> Sequence[Group]:
        """What step `number` of a phase hears beside its `num_prompts` prompts."""
        drawn = random.Random(seed_of(self._seed, "replay", phase, number))
        return drawn.sample(self._groups, min(len(self._groups), round(self._settings.share * num_prompts)))
