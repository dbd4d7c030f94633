"""Generated tables as CSV."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CITIES: Final = ("Oslo", "Lima", "Cairo", "Quito", "Turin", "Perth", "Kyoto", "Dakar")
PRODUCTS: Final = ("lamp", "chair", "clock", "mirror", "vase", "carpet", "shelf", "stool")
SIZES: Final = (6, 9, 12, 16)
"""Rows by level."""

Cell = int | str


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def csv(self) -> str:
        """With a header; no cell needs quotes."""
        return "\n".join(",".join(map(str, row)) for row in (self.columns, *self.rows))

    def column(self, name: str) -> list[Cell]:
        """One column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def numbers(self, name: str) -> list[int]:
        """One column of numbers."""
        return [cell for cell in self.column(name) if isinstance(cell, int)]


def orders(rng: random.Random, num_rows: int, cities: Sequence[str], products: Sequence[str]) -> Table:
    """Orders: number, city, product, quantity and price of a piece."""
    return Table(
        ("order", "city", "product", "quantity", "price"),
        tuple(
            (100 + place, rng.choice(cities), rng.choice(products), rng.randint(1, 9), rng.randint(5, 80))
            for place in range(num_rows)
        ),
    )
