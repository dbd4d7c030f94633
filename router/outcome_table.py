"""Outcomes as a table: one line a prompt, one column an arm. What a difficulty model is fitted and judged on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from router.outcomes import OutcomeRow
from router.request import RequestView

Floats = NDArray[np.float64]

ROUTELLM_ARMS: Final = ("fast", "full")
"""What the weak and the strong model of RouteLLM's outcomes are taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTable:
    """What each arm made of each prompt. Not a number stands for what was not tried or not counted."""

    prompts: tuple[str, ...]
    domains: tuple[str, ...]
    """Of each prompt: outcomes of one domain tell of each other."""
    arms: tuple[str, ...]
    """Weakest first."""
    successes: Floats
    """(prompts, arms), in [0, 1]."""
    num_output_tokens: Floats
    """(prompts, arms)."""
    costs: Floats
    """(prompts, arms), money."""

    def __len__(self) -> int:
        return len(self.prompts)

    def select(self, places: NDArray[Any]) -> OutcomeTable:
        """The prompts at these places (numbers, or a mask)."""
        chosen = np.arange(len(self))[places]
        return OutcomeTable(
            prompts=tuple(self.prompts[place] for place in chosen),
            domains=tuple(self.domains[place] for place in chosen),
            arms=self.arms,
            successes=self.successes[chosen],
            num_output_tokens=self.num_output_tokens[chosen],
            costs=self.costs[chosen],
        )

    def view(self, place: int) -> RequestView:
        """The prompt as the request that it was."""
        return view_of(self.prompts[place])


def view_of(prompt: str, *later_turns: str) -> RequestView:
    """A chat of these user turns and nothing else."""
    turns = (prompt, *later_turns)
    return RequestView(endpoint="chat", model="auto", turns=turns, num_chars=sum(map(len, turns)))


def table_of(rows: Iterable[OutcomeRow], arms: Sequence[str] | None = None) -> OutcomeTable:
    """The table of collected outcomes.

    Args:
        rows: in any order.
        arms: the columns, weakest first; where absent, all there are by their mean cost, the cheapest first.
    """
    rows = list(rows)
    arms = _by_cost(rows) if arms is None else tuple(arms)
    prompts = {row.prompt_id: (row.prompt, row.domain) for row in rows}
    line_of = {prompt_id: line for line, prompt_id in enumerate(prompts)}
    column_of = {arm: column for column, arm in enumerate(arms)}
    successes, tokens, costs = (np.full((len(prompts), len(arms)), np.nan) for _ in range(3))
    for row in rows:
        if row.arm in column_of:
            place = line_of[row.prompt_id], column_of[row.arm]
            successes[place], tokens[place], costs[place] = row.success, row.num_output_tokens, row.cost
    return OutcomeTable(
        prompts=tuple(prompt for prompt, _ in prompts.values()),
        domains=tuple(domain for _, domain in prompts.values()),
        arms=arms,
        successes=successes,
        num_output_tokens=tokens,
        costs=costs,
    )


def table_of_routellm(records: Sequence[Mapping[str, Any]]) -> OutcomeTable:
    """The table of RouteLLM's public outcomes: the weak model is `fast` and the strong one `full`.

    Words stand for tokens, where they were kept. Costs are not known.

    Raises:
        ValueError: a record lacks a member.
    """
    try:
        tokens = [[record.get("weak_words"), record.get("strong_words")] for record in records]
        return OutcomeTable(
            prompts=tuple(str(record["prompt"]) for record in records),
            domains=tuple(str(record["subject"]) for record in records),
            arms=ROUTELLM_ARMS,
            successes=np.array(
                [[bool(record["weak_correct"]), bool(record["strong_correct"])] for record in records],
                dtype=float,
            ).reshape(-1, 2),
            num_output_tokens=np.array(tokens, dtype=float).reshape(-1, 2),
            costs=np.full((len(records), 2), np.nan),
        )
    except KeyError as error:
        raise ValueError(f"no {error.args[0]!r}") from None


def _by_cost(rows: Sequence[OutcomeRow]) -> tuple[str, ...]:
    costs: dict[str, list[float]] = {}
    for row in rows:
        costs.setdefault(row.arm, []).append(row.cost)
    return tuple(sorted(costs, key=lambda arm: (float(np.mean(costs[arm])), arm)))
