"""Book-keeping in a key-value store."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import THINGS, made_up_words


class EntriesDomain(ToolDomain):
    """Level 0 moves a number from one count to another, 1 follows a reference first, 2 totals a group."""

    name: ClassVar[str] = "tool_store"
    description: ClassVar[str] = (
        "Read and change entries of a key-value store; checked by its entries at the end."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        groups = made_up_words(rng, 3)
        entries = {
            f"{group}/{thing}": str(rng.randrange(10, 100))
            for group in groups
            for thing in rng.sample(THINGS, 4)
        }
        return (self._moved, self._referred, self._totalled)[level](rng, entries, groups)

    def _moved(self, rng: random.Random, entries: dict[str, str], groups: list[str]) -> ToolTask:
        giver, taker = rng.sample(list(entries), 2)
        return self._transfer(rng, entries, giver, taker, giver, ())

    def _referred(self, rng: random.Random, entries: dict[str, str], groups: list[str]) -> ToolTask:
        giver, taker = rng.sample(list(entries), 2)
        entries[f"alias/{groups[0]}"] = giver
        told = f"the entry that alias/{groups[0]} names"
        return self._transfer(rng, entries, giver, taker, told, (f"alias/{groups[0]}",))

    def _transfer(
        self,
        rng: random.Random,
        entries: dict[str, str],
        giver: str,
        taker: str,
        told: str,
        looked_up: tuple[str, ...],
    ) -> ToolTask:
        num = rng.randrange(2, 10)
        left, got = int(entries[giver]) - num, int(entries[taker]) + num
        return ToolTask(
            prompt=f"Take {num} from {told} in the store and add them to {taker}. Answer with what the "
            "first one has left.",
            tools={"store": {"entries": entries}},
            turns=one_by_one(
                *(calling("store_get", key=key) for key in (*looked_up, giver, taker)),
                calling("store_set", key=giver, value=str(left)),
                calling("store_set", key=taker, value=str(got)),
            ),
            answer=str(left),
            reading=Reading.NUMBER,
        )

    def _totalled(self, rng: random.Random, entries: dict[str, str], groups: list[str]) -> ToolTask:
        group = rng.choice(groups)
        keys = sorted(key for key in entries if key.startswith(f"{group}/"))
        total = sum(int(entries[key]) for key in keys)
        least = min(keys, key=lambda key: (int(entries[key]), key))
        for key in keys:
            if key != least and entries[key] == entries[least]:
                entries[key] = str(int(entries[key]) + 100)
                total += 100
        return ToolTask(
            prompt=f"Set total/{group} to the sum of all entries under {group}/, and delete the one of "
            "them that has the "
            "least. Answer with the sum.",
            tools={"store": {"entries": entries}},
            turns=one_by_one(
                calling("store_list", prefix=f"{group}/"),
                *(calling("store_get", key=key) for key in keys),
                calling("store_set", key=f"total/{group}", value=str(total)),
                calling("store_delete", key=least),
            ),
            answer=str(total),
            reading=Reading.NUMBER,
        )


DOMAIN: Final[Domain] = EntriesDomain()
