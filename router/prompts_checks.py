"""Checks of short answers: each says whether a text states one known thing, and is wrong of an empty text.

They read the answer alone; `router.prompts.Item.passes` takes the question out of it first, so that an answer that
repeats the question does not pass by what stood in it. Letter case, quotes and the final full stop never matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class Check(Protocol):
    """Whether an answer is right."""

    def __call__(self, answer: str) -> bool:
        """True for an answer that states what is right, and nothing else in its place."""
        ...


@dataclass(frozen=True, slots=True)
class States:
    """The first of `choices` that the answer names is `right`, or one of its other forms.

    Choices are whole words or phrases. Where two begin at the same place the longer one counts.
    """

    right: str | tuple[str, ...]
    choices: tuple[str, ...]

    def __call__(self, answer: str) -> bool:
        """Whether it names the right one first."""
        accepted = {_plain(form) for form in ((self.right,) if isinstance(self.right, str) else self.right)}
        names = sorted(accepted | set(map(_plain, self.choices)), key=len, reverse=True)
        found = re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", _plain(answer))
        return found is not None and found.group() in accepted


@dataclass(frozen=True, slots=True)
class Number:
    """In the first sentence that has a number, the last number is `value`: `9`, `It is 9.`, `4 + 5 = 9`."""

    value: float

    def __call__(self, answer: str) -> bool:
        """Whether that number is the value."""
        for sentence in _SENTENCE_END.split(answer):
            if numbers := _NUMBER.findall(sentence):
                return float(numbers[-1].replace(",", "").replace("−", "-")) == self.value
        return False


@dataclass(frozen=True, slots=True)
class Words:
    """The first line that has words, or what follows its colon, consists of these words in this order."""

    text: str

    def __call__(self, answer: str) -> bool:
        """Whether the words are the same."""
        wanted = _words(self.text)
        for line in filter(_words, answer.splitlines()):
            if wanted in (_words(line), _words(line.rpartition(":")[2])):
                return True
            if not line.rstrip().endswith(":"):  # an introduction, whose answer comes on the next line
                return False
        return False


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The first JSON object in the answer has these members, others are allowed; texts are compared without case."""

    members: Mapping[str, str | int]

    def __call__(self, answer: str) -> bool:
        """Whether it has the members."""
        found = next(_objects(answer), None)
        wanted = _caseless(self.members)
        return found is not None and wanted == {
            name: v for name, v in _caseless(found).items() if name in wanted
        }


def _objects(text: str) -> Iterator[dict[str, object]]:
    decoder = json.JSONDecoder()
    for brace in re.finditer(r"\{", text):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):  # not JSON, or nested beyond all measure
            continue
        if isinstance(value, dict):
            yield value


def _caseless(members: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.casefold().strip() if isinstance(value, str) else value for name, value in members.items()
    }


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
