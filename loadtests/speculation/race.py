"""Asks an engine without drafts and the same with each, in turn: all are up at once, and their order is drawn anew."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loadtests.speculation.answers import Answer, Dialect
from loadtests.speculation.findings import Difference, Pair, first_difference
from loadtests.speculation.prompts import Prompt
from loadtests.tuning.load import ServedEngine

ALONE: Final = ""
"""The name of the engine without a draft."""


def race(
    engines: Mapping[str, ServedEngine],
    dialect: Dialect,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    num_rounds: int,
    rng: random.Random,
    on_answer: Callable[[], None],
) -> dict[str, list[Pair]]:
    """Draft → a pair for each prompt.

    Args:
        engines: by the draft's name, `ALONE` among them.
        dialect: how they are asked.
        prompts: each is asked of every engine in every round.
        max_tokens: of an answer.
        num_rounds: at least 1.
        rng: draws the order.
        on_answer: hears of each answer.

    Raises:
        EngineDown: one does not answer.
    """
    for engine in engines.values():  # what is done once, such as compiling when first drafted, is not timed
        dialect.answer(engine, prompts[0].text, max_tokens)
    pairs: dict[str, list[Pair]] = {name: [] for name in engines if name != ALONE}
    for prompt in prompts:
        answers: dict[str, list[Answer]] = {name: [] for name in engines}
        for _ in range(num_rounds):
            for name in rng.sample(list(engines), len(engines)):
                answers[name].append(dialect.answer(engines[name], prompt.text, max_tokens))
                on_answer()
        for name, found in pairs.items():
            difference = _difference(engines[ALONE], dialect, answers[ALONE][0], answers[name])
            pair = Pair(
                domain=prompt.domain, alone=answers[ALONE], drafted=answers[name], difference=difference
            )
            found.append(pair)
    return pairs


def _difference(
    engine: ServedEngine, dialect: Dialect, alone: Answer, drafted: Sequence[Answer]
) -> Difference | None:
    """The one that is least like a tie, of all rounds."""
    found: list[Difference] = []
    for tokens in {answer.tokens for answer in drafted}:
        place = first_difference(alone.tokens, tokens)
        if place is not None:
            found.append(Difference(position=place, gap=_gap(engine, dialect, alone, tokens, place)))
    return max(found, key=lambda each: math.inf if each.gap is None else each.gap, default=None)


def _gap(
    engine: ServedEngine, dialect: Dialect, alone: Answer, tokens: Sequence[int], place: int
) -> float | None:
    if place == min(len(alone.tokens), len(tokens)):  # one ended where the other went on
        return None
    likeliest = dialect.logprobs(engine, (*alone.prompt_tokens, *alone.tokens[:place]))
    both = [likeliest.get(each) for each in (alone.tokens[place], tokens[place])]
    return None if both[0] is None or both[1] is None else abs(both[0] - both[1])
