"""Prompts about words as strings: copying, letters, patterns, places in a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.prompts_checks import Check, Number, States, Words

Question = tuple[str, Check, str]

WORDS: Final = """
    apple garden silver window pencil orange yellow basket candle bridge forest rocket button island summer winter
    castle dragon farmer guitar hammer jacket kitten ladder market needle pepper rabbit saddle tunnel velvet walnut
    anchor banner camera desert engine flower hunter insect jungle kettle lemon mirror ocean pillow river school
    table tiger uncle valley wagon zebra bread chair dance earth flame grape horse juice knife light money night
    paper queen river stone train water bear boat book cake city door fish gold hand king lake moon nest rain
    """.split()  # noqa: SIM905 - ninety quoted words would hide the list
LETTERS: Final = tuple("bcdefghjklmnopqrstuvwxyz")


def copying(rng: np.random.Generator, level: int) -> Question:
    """One word, four words, or a code of eight letters and digits."""
    text = " ".join(_words(rng, 1 if level == 0 else 4))
    if level == 2:
        text = "".join(rng.choice([*LETTERS, *"0123456789"], 8))
    asked = ("Repeat this exactly, and say nothing else: ", "Copy the following text: ")[rng.integers(2)]
    return asked + text, Words(text), text


def letters(rng: np.random.Generator, level: int) -> Question:
    """The first, the last, the third letter of a word. Never `a` or `i`, which are words of an answer too."""
    place, name = ((0, "first"), (-1, "last"), (2, "third"))[level]
    word = str(rng.choice(sorted({word for word in WORDS if word[place] not in "ai"})))
    prompt = f'What is the {name} letter of the word "{word}"? Answer with one letter.'
    return prompt, States(word[place], LETTERS), word[place].upper()


def letter_counts(rng: np.random.Generator, level: int) -> Question:
    """How many letters a word has, how often one occurs in it, or in three words."""
    if level == 0:
        length = int(rng.integers(4, 7))
        word = str(rng.choice(sorted({word for word in WORDS if len(word) == length})))
        return (
            f'How many letters are in the word "{word}"? Give only the number.',
            Number(length),
            str(length),
        )
    doubled = sorted({word for word in WORDS if len(set(word)) < len(word)})
    text = str(rng.choice(doubled)) if level == 1 else " ".join(_words(rng, 3))
    counts = {letter: text.count(letter) for letter in sorted(set(text) - {" "})}
    wanted = int(rng.choice(sorted(set(counts.values()))))  # else nearly every answer were 1
    letter = str(rng.choice([letter for letter, count in counts.items() if count == wanted]))
    prompt = f'How many times does the letter "{letter}" occur in "{text}"? Give only the number.'
    return prompt, Number(wanted), str(wanted)


def patterns(rng: np.random.Generator, level: int) -> Question:
    """A rule shown by examples: the last word, the first letter, a word doubled."""
    rule = (_same, _first_letter, _last_word)[level]
    shown = [_words(rng, 2) for _ in range(4)]
    lines = [f"{' '.join(words)} -> {rule(words)}" for words in shown]
    right = rule(shown[-1])
    lines[-1] = f"{' '.join(shown[-1])} ->"
    return (
        "Continue the pattern. Answer with the missing text only.\n" + "\n".join(lines),
        Words(right),
        right,
    )


def list_places(rng: np.random.Generator, level: int) -> Question:
    """The first or last word of a list, then one at a place within it."""
    words = _words(rng, 3 + level)
    place = int(rng.choice([0, -1])) if level == 0 else int(rng.integers(1, len(words) - 1))
    name = {0: "first", -1: "last", 1: "second", 2: "third", 3: "fourth"}[place]
    prompt = f"List: {', '.join(words)}. What is the {name} word of the list? Answer with one word."
    return prompt, States(words[place], tuple(words)), words[place]


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "copying": copying,
    "letters": letters,
    "letter_counts": letter_counts,
    "patterns": patterns,
    "list_places": list_places,
}


def _words(rng: np.random.Generator, count: int) -> list[str]:
    return [str(word) for word in rng.choice(sorted(set(WORDS)), count, replace=False)]


def _same(words: list[str]) -> str:
    return " ".join(words).upper()


def _first_letter(words: list[str]) -> str:
    return " ".join(word[0] for word in words)


def _last_word(words: list[str]) -> str:
    return words[-1]
