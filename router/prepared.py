"""A table of outcomes, read once for all fits on it, or on a part of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from router.copies import copies_of
from router.duplicates import duplicate_groups
from router.encoding import Embedder, Encoded, encode
from router.fit_config import FitConfig
from router.outcome_table import OutcomeTable


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table, read."""

    table: OutcomeTable
    encoded: tuple[Encoded, ...]
    groups: NDArray[np.int64]
    """Near-duplicates have one number."""
    embed: Embedder | None = None
    """What the prompts were read with."""
    copies: tuple[tuple[Encoded, ...], ...] | None = None
    """Of each prompt, written otherwise; None where none were made yet."""

    def select(self, places: NDArray[np.int64]) -> Prepared:
        """The part at these places."""
        copies = None if self.copies is None else tuple(self.copies[place] for place in places)
        encoded = tuple(self.encoded[place] for place in places)
        return replace(
            self, table=self.table.select(places), encoded=encoded, groups=self.groups[places], copies=copies
        )

    def copied(self, config: FitConfig) -> Prepared:
        """The same with the copies that `config` asks for."""
        num = len(self.table)
        generator = np.random.Generator(np.random.PCG64(config.seed))
        num_each = min(config.num_copies, max(1, config.max_copies // num))
        num_copied = min(num, config.max_copies // num_each) if num_each else 0
        copies: list[tuple[Encoded, ...]] = [()] * num
        for place in generator.permutation(num)[:num_copied]:
            views = copies_of(self.table.prompts[place], num_each, generator)
            copies[place] = tuple(encode(view, self.embed) for view in views)
        return replace(self, copies=tuple(copies))


def prepare(table: OutcomeTable, embed: Embedder | None = None) -> Prepared:
    """Read the prompts of `table` and group the near-duplicates among them."""
    encoded = tuple(encode(table.view(place), embed) for place in range(len(table)))
    return Prepared(table, encoded, duplicate_groups([each.words for each in encoded]), embed)
