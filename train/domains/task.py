"""A kind of task as a domain: a draw, and a judge of what was said."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from train.domains.base import Family, Item, Verdict
from train.seeds import seed_of
from train.transcript import JsonValue, Transcript, answered

NUM_LEVELS: Final = 4


@dataclass(frozen=True, slots=True)
class Task:
    """One task."""

    prompt: str
    answer: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    """What its judge needs."""


@dataclass(frozen=True, slots=True)
class TaskDomain:
    """One kind of task."""

    name: str
    description: str
    draw: Callable[[random.Random, int], Task]
    """A task of a level."""
    judge: Callable[[Item, Transcript], Verdict]
    family: Family = Family.CODE
    num_levels: int = NUM_LEVELS

    def item(self, seed: int, index: int, level: int) -> Item:
        """As `Domain.item`."""
        task = self.draw(random.Random(seed_of(seed, self.name, index, level)), level)
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=task.prompt,
            answer=task.answer,
            data=task.data,
            max_answer_tokens=16 + len(task.answer),
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """As its judge says."""
        return self.judge(item, transcript)

    def reference(self, item: Item) -> Transcript:
        """The answer."""
        return answered(item.answer)
