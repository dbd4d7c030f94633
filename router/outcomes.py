"""Outcomes: what became of a prompt on an arm, one record each, and what a set of them says at a glance.

The table that a difficulty model is fitted on. Reading and writing files is not done here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from math import sqrt
from typing import Any, Final

from router.first_tokens import FirstTokens

Z_95: Final = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """One answer and whether it was right. `(prompt_id, arm)` is unique in a table."""

    prompt_id: str
    domain: str
    level: int
    prompt: str
    arm: str
    model: str
    """What the engine called itself: outcomes of other weights are other outcomes."""
    success: bool
    answer: str
    num_input_tokens: int
    num_output_tokens: int
    cost: float
    created_at: float
    """Unix time."""
    first_tokens: FirstTokens | None = None
    """How sure the model was of the answer's beginning; None where the engine did not say."""

    @property
    def key(self) -> tuple[str, str]:
        """Prompt id and arm."""
        return self.prompt_id, self.arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of how many."""

    num: int
    num_all: int

    @property
    def value(self) -> float:
        """The share, in [0, 1]; 0 of nothing is 0."""
        return self.num / self.num_all if self.num_all else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval (Wilson 1927, doi:10.1080/01621459.1927.10502953); of nothing, all of [0, 1]."""
        if not self.num_all:
            return 0.0, 1.0
        n, z2 = self.num_all, Z_95**2
        middle = (self.value + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 / (1 + z2 / n) * sqrt(self.value * (1 - self.value) / n + z2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one arm did on one domain, or on all."""

    success: Share
    mean_output_tokens: float
    cost: float
    """Of all its answers together."""


_FIRST_TOKENS: Final = "first_tokens"


def as_members(row: OutcomeRow) -> dict[str, Any]:
    """The row as plain members."""
    members = {field.name: getattr(row, field.name) for field in _plain_fields()}
    return members if row.first_tokens is None else members | {_FIRST_TOKENS: row.first_tokens.as_members()}


def from_members(members: Mapping[str, Any]) -> OutcomeRow:
    """The row that `as_members` made these of.

    Raises:
        ValueError: a member is missing, unknown, or of another type.
    """
    kinds: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "float": (int, float)}
    for field in _plain_fields():
        if field.name not in members:
            raise ValueError(f"no {field.name!r}")
        value = members[field.name]
        wrong_bool = isinstance(value, bool) != (field.type == "bool")
        if wrong_bool or not isinstance(value, kinds[str(field.type)]):
            raise ValueError(f"{field.name!r} is {value!r}, which is no {field.type}")
    if unknown := set(members) - {field.name for field in fields(OutcomeRow)}:
        raise ValueError(f"unknown members: {', '.join(sorted(unknown))}")
    return OutcomeRow(**{**members, _FIRST_TOKENS: _first_tokens(members.get(_FIRST_TOKENS))})


def _plain_fields() -> list[Field[Any]]:
    return [field for field in fields(OutcomeRow) if field.name != _FIRST_TOKENS]


def _first_tokens(members: Any) -> FirstTokens | None:
    if members is None:
        return None
    if not isinstance(members, dict):
        raise ValueError(f"{_FIRST_TOKENS!r} is {members!r}, which is no object")
    return FirstTokens.from_members(members)


def cell(rows: Sequence[OutcomeRow]) -> Cell:
    """The rows counted together."""
    return Cell(
        success=Share(num=sum(row.success for row in rows), num_all=len(rows)),
        mean_output_tokens=sum(row.num_output_tokens for row in rows) / len(rows) if rows else 0.0,
        cost=sum(row.cost for row in rows),
    )


def by_domain(rows: Iterable[OutcomeRow]) -> dict[tuple[str, str], Cell]:
    """The cell of each (domain, arm), in the order of their names."""
    groups: defaultdict[tuple[str, str], list[OutcomeRow]] = defaultdict(list)
    for row in rows:
        groups[row.domain, row.arm].append(row)
    return {key: cell(groups[key]) for key in sorted(groups)}


def joint(rows: Iterable[OutcomeRow], arms: Sequence[str]) -> dict[tuple[str, ...], int]:
    """On how many prompts exactly these arms were right; of prompts that all of `arms` answered.

    Routing can pay only by prompts where some arm is right and another is not.
    """
    prompts: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for row in rows:
        prompts[row.prompt_id][row.arm] = row.success
    counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for successes in prompts.values():
        if all(arm in successes for arm in arms):
            counts[tuple(arm for arm in arms if successes[arm])] += 1
    return dict(sorted(counts.items(), key=lambda item: (-len(item[0]), item[0])))
