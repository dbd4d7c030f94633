"""How sure a model was of the first tokens of an answer: what hold-back looks at, and what outcomes keep of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Self

VERSION: Final = 1
"""Of the members that an outcomes file keeps."""
MAX_TOKENS: Final = 16
"""No more of an answer is kept."""
NUM_DECIMALS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """The first tokens of one answer, in order."""

    logprobs: tuple[float, ...]
    """Of the tokens that were taken, before temperature and the like."""
    margins: tuple[float, ...]
    """The likeliest token's log-probability less the second's: 0 is a toss-up."""

    def __post_init__(self) -> None:
        if len(self.logprobs) != len(self.margins):
            raise ValueError("every token has a log-probability and a margin")

    def __len__(self) -> int:
        return len(self.margins)

    def first(self, num_tokens: int) -> FirstTokens:
        """The first of them."""
        return FirstTokens(logprobs=self.logprobs[:num_tokens], margins=self.margins[:num_tokens])

    def as_members(self) -> dict[str, Any]:
        """At most `MAX_TOKENS`, rounded, as plain members."""
        return {
            "version": VERSION,
            "logprobs": [round(value, NUM_DECIMALS) for value in self.logprobs[:MAX_TOKENS]],
            "margins": [round(value, NUM_DECIMALS) for value in self.margins[:MAX_TOKENS]],
        }

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """What `as_members` made these of.

        Raises:
            ValueError: a member is missing, unknown, or of another type or version.
        """
        if members.keys() != {"version", "logprobs", "margins"}:
            raise ValueError(f"first tokens have a version, logprobs and margins, not {sorted(members)}")
        if members["version"] != VERSION:
            raise ValueError(f"first tokens of version {members['version']!r}; known is {VERSION}")
        return cls(logprobs=_numbers(members["logprobs"]), margins=_numbers(members["margins"]))


def of_content(content: Sequence[Mapping[str, Any]]) -> FirstTokens:
    """Log-probabilities in the form of OpenAI's chat API, asked for with `top_logprobs` of at least 2.

    It ends before the first token that is told without an alternative, of which there is no margin.
    """
    logprobs, margins = [], []
    for entry in content:
        top = sorted((float(other["logprob"]) for other in entry.get("top_logprobs") or ()), reverse=True)
        if len(top) < 2:
            break
        logprobs.append(float(entry["logprob"]))
        margins.append(top[0] - top[1])
    return FirstTokens(logprobs=tuple(logprobs), margins=tuple(margins))


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is no list of numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise ValueError(f"{value!r} is no finite number")
    return tuple(map(float, values))
