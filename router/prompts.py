"""Prompts with known answers, made from a seed: what outcomes are collected on. Generated; Apache-2.0 like the code.

    item = make("sums", seed=7, index=3, level=1)
    item.prompt, item.passes("The answer is 42.")

A domain is a function of a random generator and a level from 0, the easiest, to 2; half of its prompts come with
solved examples. Everything about an item follows from (seed, domain, level, index); a change of what they give is a
change of `PROMPTS_VERSION`, which is in every id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from router import (
    prompts_everyday,
    prompts_facts,
    prompts_language,
    prompts_numbers,
    prompts_texts,
    prompts_words,
)
from router.prompts_checks import Check

PROMPTS_VERSION: Final = "prompts-1"
LEVELS: Final = (0, 1, 2)

Question = tuple[str, Check, str]
"""The prompt, the check of its answer, and an answer that passes."""
Domain = Callable[[np.random.Generator, int], Question]

DOMAINS: Final[Mapping[str, Domain]] = {
    **prompts_numbers.DOMAINS,
    **prompts_words.DOMAINS,
    **prompts_facts.DOMAINS,
    **prompts_language.DOMAINS,
    **prompts_texts.DOMAINS,
    **prompts_everyday.DOMAINS,
}

MIN_REPEATED_WORDS: Final = 3
"""A part of the prompt that is shorter may be the answer itself."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

EXAMPLES_SHARE: Final = 0.5
NUM_EXAMPLES: Final = 2
"""This share of the prompts shows so many solved questions first. They help some models and confuse others."""

MAX_MISSES: Final = 40
"""Repeated prompts in a row after which a domain's level is taken as exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One prompt and what its answer is checked by."""

    prompt_id: str
    domain: str
    level: int
    prompt: str
    check: Check
    reference: str
    """An answer that passes."""

    def passes(self, answer: str) -> bool:
        """Whether the answer is right. What it repeats of the question does not count for it."""
        return self.check(without_question(answer, self.prompt))


def make(domain: str, *, seed: int, index: int, level: int) -> Item:
    """The item at `index` of a domain's level: the same for the same arguments.

    Raises:
        KeyError: no such domain.
    """
    rng = np.random.default_rng([seed, index, level, crc32(domain.encode())])
    question, check, reference = DOMAINS[domain](rng, level)
    with_examples = rng.random() < EXAMPLES_SHARE
    examples = [DOMAINS[domain](rng, level) for _ in range(NUM_EXAMPLES)] if with_examples else []
    shown = [f"Question: {asked}\nAnswer: {answer}\n\n" for asked, _, answer in examples if asked != question]
    prompt = f"{''.join(shown)}Question: {question}\nAnswer:" if shown else question
    return Item(
        prompt_id=f"{PROMPTS_VERSION}/{domain}/{level}/{seed}-{index}",
        domain=domain,
        level=level,
        prompt=prompt,
        check=check,
        reference=reference,
    )


def prompt_set(
    num_items: int, *, seed: int, domains: Sequence[str] = tuple(DOMAINS), levels: Sequence[int] = LEVELS
) -> list[Item]:
    """Up to `num_items` different prompts, taken in turn from every domain and level.

    So a part of the set is as mixed as the whole, and a larger set begins with the smaller one. Fewer are returned
    where the domains' small tables give no more.
    """
    return in_turn([_different(domain, seed, level) for level in levels for domain in domains], num_items)


def in_turn(streams: Iterable[Iterator[Item]], num_items: int) -> list[Item]:
    """Up to `num_items`, the next of each stream in turn; one that has ended is passed over."""
    going = list(streams)
    items: list[Item] = []
    while going and len(items) < num_items:
        for stream in tuple(going):
            if len(items) == num_items:
                break
            if (item := next(stream, None)) is None:
                going.remove(stream)
            else:
                items.append(item)
    return items


def without_question(answer: str, prompt: str) -> str:
    """`answer` without what it repeats of the prompt: all of it, whole lines, whole sentences."""
    lines = prompt.strip().splitlines()
    sentences = [sentence for line in lines for sentence in _SENTENCE_END.split(line)]
    rest, said = answer, answer.casefold()
    for part in (prompt, *lines, *sentences):
        words = part.split()
        if len(words) >= MIN_REPEATED_WORDS and all(word.casefold() in said for word in words):
            spaced = r"\s+".join(map(re.escape, words))
            rest = re.sub(rf"(?<!\w){spaced}(?!\w)", " ", rest, flags=re.IGNORECASE)
    return rest


def _different(domain: str, seed: int, level: int) -> Iterator[Item]:
    seen: set[str] = set()
    misses, index = 0, 0
    while misses < MAX_MISSES:
        item = make(domain, seed=seed, index=index, level=level)
        index += 1
        if item.prompt in seen:
            misses += 1
            continue
        seen.add(item.prompt)
        misses = 0
        yield item
