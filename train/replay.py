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
QUESTION_FORMS: Final = {
    "What is the capital city of {}?": (
        "France", "Italy", "Spain", "Germany", "Poland", "Japan", "China", "India", "Egypt", "Kenya", "Brazil", "Peru",
        "Canada", "Mexico", "Norway", "Greece", "Turkey", "Russia", "Cuba", "Ireland",
    ),
    "On which continent is {}?": ("Chile", "Nigeria", "Thailand", "Portugal", "Iran", "Ghana", "Sweden", "Vietnam"),
    "What is the plural form of the word {}?": (
        "cat", "box", "city", "leaf", "mouse", "child", "bus", "tooth", "hero", "baby", "sheep", "watch",
    ),
    "Tell me the opposite of {}.": (
        "hot", "big", "early", "happy", "light", "open", "fast", "rich", "empty", "strong", "loud", "near",
    ),
    "What is the past tense of the verb {}?": (
        "go", "see", "walk", "eat", "write", "sing", "play", "buy", "run", "think", "swim", "make",
    ),
    "Which day comes after {}?": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "Which month comes before {}?": ("February", "April", "June", "August", "October", "December"),
    "What colour is {}?": ("grass", "snow", "a banana", "coal", "the sky", "a carrot", "blood", "an elephant"),
    "What kind of thing is {}?": ("a rose", "a hammer", "an eagle", "a violin", "gold", "a shark", "an apple", "a bus"),
    "Is this said in a good or in a bad mood: {}": (
        "I love this place!", "What a terrible day.", "The food was cold again.", "We had so much fun.",
        "My phone broke.", "You made me smile.",
    ),
    "How much is {}?": (
        "3 plus 4", "12 plus 9", "27 plus 35", "48 plus 61", "130 plus 45", "9 minus 2", "30 minus 12", "85 minus 27",
        "100 minus 64", "2 times 6", "7 times 8", "9 times 4", "11 times 5", "14 times 3", "half of 18", "double 16",
    ),
    "Which number comes next: {}?": ("1, 2, 3, 4", "2, 4, 6, 8", "5, 10, 15, 20", "30, 27, 24, 21", "7, 9, 11, 13"),
    "Which is larger, {}?": ("8 or 5", "12 or 21", "99 or 101", "340 or 304"),
    "Repeat this word: {}": ("lantern", "river", "velvet", "harbour", "tomato", "compass"),
}  # fmt: skip
ENDINGS: Final = ("", " Answer in a few words.")
QUESTIONS: Final = tuple(
    form.format(about) + ending
    for form, topics in QUESTION_FORMS.items()
    for about in topics
    for ending in ENDINGS
)
"""With short answers, which a policy unlearns first: it has learned to guess in one word."""
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
