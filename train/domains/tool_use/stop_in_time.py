"""A trail of notes that goes on after what was looked for: who has found it stops."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import made_up_words


class StopInTimeDomain(ToolDomain):
    """A level makes the way longer. A third of the trails lead in a circle without it, which must be noticed."""

    name: ClassVar[str] = "tool_stop_in_time"
    description: ClassVar[str] = (
        "Follow notes to a word, or back to one read before, and stop there; each call more costs."
    )
    price: ClassVar[float] = 0.1
    num_spare_calls: ClassVar[int] = 6

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        length = rng.randrange(2 + level, 4 + 2 * level)
        trail = made_up_words(rng, length + 8)
        [word] = made_up_words(rng, 1, 3)
        entries = {key: f"next: {after}" for key, after in pairwise(trail)}
        entries[trail[-1]] = f"next: {trail[0]}"
        last = trail[length - 1]
        if rng.random() < 1 / 3:
            answer = rng.choice(trail[:length])
            entries[last] = f"next: {answer}"
        else:
            answer = word
            entries[last] += f"; word: {word}"
        return ToolTask(
            prompt=f"Read the note at the key {trail[0]} in the store, then the one that it calls next, "
            "and so on, until "
            "one has a word, or names as next a key that you have read already. Then stop. Answer with "
            "the word, or with "
            "that key.",
            tools={"store": {"entries": dict(sorted(entries.items()))}},
            turns=one_by_one(*(calling("store_get", key=key) for key in trail[:length])),
            answer=answer,
        )


DOMAIN: Final[Domain] = StopInTimeDomain()
