"""The contract of a domain: items made from a seed, and a verdict on what a policy made of them.

A domain is a file that ends in `DOMAIN = …` or `DOMAINS = (…)`; `train.domains.catalog` finds it. Items are a pure
function of `(seed, index, level)`: nothing is stored, and training and evaluation never share a seed. `verify` may be
slow, hang or crash, for it runs in a worker that can be killed (`train.verifiers.pool`); whatever it raises is an
error, and an error is never a reward. No domain trains before it has passed the audit (`train.domains.audit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from train.transcript import JsonValue, Transcript


class Family(StrEnum):
    """What domains have in common; reports group by it."""

    MATHEMATICS = "mathematics"
    CODE = "code"
    REPOSITORY = "repository"
    DATA_SCIENCE = "data_science"
    TOOL_USE = "tool_use"
    DOCUMENTS = "documents"
    KNOWLEDGE = "knowledge"
    GEOMETRY = "geometry"
    SCHEDULING = "scheduling"
    REASONING = "reasoning"


class ErrorClass(StrEnum):
    """Why there is no verdict. Not the policy's fault unless it says so; never a reward."""

    CRASHED = "crashed"
    """The verifier raised, or its process died."""
    TIMED_OUT = "timed_out"
    UNAVAILABLE = "unavailable"
    """What it needs is not there: a sandbox, a solver."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The tools of an item and how they stand when it begins."""

    tools: Mapping[str, Mapping[str, JsonValue]]
    """By tool: its initial state, as its `from_state` reads it (`train.tools.base`)."""
    max_calls: int
    """The budget; a call beyond it is refused, and the refusal is evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One task."""

    domain: str
    level: int
    seed: int
    index: int
    prompt: str
    """The user's message. No chat markup, no hint that it is a test."""
    answer: str = ""
    """The reference answer; empty where there is none as a text."""
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the verifier needs beyond that. JSON, so that an item can be kept, sent and shown."""
    environment: Environment | None = None
    max_answer_tokens: int = 64
    """What a terse right answer needs, twice over."""

    @property
    def id(self) -> str:
        """`domain/level/seed-index`."""
        return f"{self.domain}/{self.level}/{self.seed}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rollout is worth."""

    score: float
    """In [0, 1]: 1 is right, 0 is worthless; between them is partial credit that cannot be had for a constant."""
    passed: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    """Named parts of the score, each in [0, 1]."""
    evidence: str = ""
    """What a person, or the policy on its next try, may read: never the reference answer."""
    cost_s: float = 0.0
    """Seconds that the verifier took."""
    error: ErrorClass | None = None
    """Where set, the score is 0 and says nothing of the rollout."""


class Domain(Protocol):
    """A family of items of one kind."""

    @property
    def name(self) -> str:
        """Lower case and underscores; unique over all domains."""
        ...

    @property
    def family(self) -> Family:
        """What reports group it under."""
        ...

    @property
    def description(self) -> str:
        """One sentence: what is asked, and how the answer is checked."""
        ...

    @property
    def num_levels(self) -> int:
        """Levels are 0 … num_levels − 1; a higher one is harder. At least 3."""
        ...

    def item(self, seed: int, index: int, level: int) -> Item:
        """The item at this place; the same every time, in every process."""
        ...

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """What the transcript is worth. Pure but for a sandbox; may raise on what it did not foresee."""
        ...

    def reference(self, item: Item) -> Transcript:
        """A transcript that `verify` passes with score 1."""
        ...


@runtime_checkable
class Worked(Protocol):
    """A domain that can show how an item is worked out; optional (`train.modes`)."""

    def worked(self, item: Item) -> str:
        """The way to the answer in one line, without the answer itself at its end."""
        ...
