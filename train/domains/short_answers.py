"""Items whose answer is one short line, as plain records: what a stack of served models can be asked and judged by.

A record is `{domain, level, prompt, answer}`; who reads it needs neither the domain nor its verifier. So a domain is
fit for it only where one answer is right and there is one way to write it; `NAMES` are reasoning-gym's that are. Left
out are those answered by yes or no alone, by a formula, or by any of several right answers, and those with pages of
rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from train.domains.base import Domain, Item
from train.transcript import JsonValue

NAMES: Final = (
    "aiw", "base_conversion", "basic_arithmetic", "binary_alternation", "calendar_arithmetic", "chain_sum",
    "color_cube_rotation", "count_bits", "count_primes", "decimal_chain_sum", "family_relationships", "gcd",
    "largest_island", "lcm", "leg_counting", "letter_counting", "maze", "needle_haystack", "products", "rotten_oranges",
    "self_reference", "simple_equations", "simple_geometry", "spell_backward", "zebra_puzzles",
)  # fmt: skip
LEVELS: Final = (0, 1, 2)
MAX_ANSWER_CHARS: Final = 32
MAX_MISSES: Final = 40
"""Items in a row that repeat a prompt or have a long answer, after which a level has no more."""


class NoShortAnswersError(ValueError):
    """A domain has too few different items whose answer is short."""


def records(
    domains: Sequence[Domain], *, count: int, seed: int, levels: Sequence[int] = LEVELS
) -> Iterator[dict[str, JsonValue]]:
    """`count` records of each level of each domain, no prompt twice in a domain.

    Raises:
        NoShortAnswersError: names the domain and the level, which may be one that it has not.
    """
    for domain in domains:
        seen: set[str] = set()
        for level in levels:
            for item in _items(domain, level, seed, count, seen):
                yield {"domain": item.domain, "level": level, "prompt": item.prompt, "answer": item.answer}


def _items(domain: Domain, level: int, seed: int, count: int, seen: set[str]) -> Iterator[Item]:
    if level >= domain.num_levels:
        raise NoShortAnswersError(f"{domain.name} has levels 0 to {domain.num_levels - 1}")
    num_made = misses = index = 0
    while num_made < count:
        item = domain.item(seed, index, level)
        index += 1
        if item.prompt in seen or not _is_short(item.answer):
            misses += 1
            if misses == MAX_MISSES:
                raise NoShortAnswersError(
                    f"{domain.name} has {num_made} different prompts with a short answer at level {level}"
                )
            continue
        misses = 0
        num_made += 1
        seen.add(item.prompt)
        yield item


def _is_short(answer: str) -> bool:
    return 0 < len(answer.strip()) <= MAX_ANSWER_CHARS and "\n" not in answer
