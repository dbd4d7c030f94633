"""From collected outcomes to what escalation is fitted and judged on: prompts of both arms, with the first's tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.arms import Price
from router.escalation_fit import Trials
from router.escalation_play import Answers
from router.first_tokens import FirstTokens
from router.outcomes import OutcomeRow

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Prompts that both arms answered, in order."""

    first: tuple[OutcomeRow, ...]
    next: tuple[OutcomeRow, ...]
    tokens: tuple[FirstTokens, ...]
    """Of the first arm's answers."""

    @property
    def rows(self) -> Sequence[OutcomeRow]:
        """All rows, two of each prompt, the prompts in order."""
        return [row for pair in zip(self.first, self.next, strict=True) for row in pair]

    def answers(self, forecasts: Floats) -> Answers:
        """With these forecasts, (prompts, 2)."""
        inputs, outputs = self._both(lambda row: row.num_input_tokens), self._both(_num_output_tokens)
        costs = self._both(lambda row: row.cost)
        successes = self._both(lambda row: row.success)
        return Answers(
            trials=Trials(forecasts=forecasts, successes=successes, tokens=self.tokens),
            num_input_tokens=inputs,
            num_output_tokens=outputs,
            prices=(
                price_of(inputs[:, 0], outputs[:, 0], costs[:, 0]),
                price_of(inputs[:, 1], outputs[:, 1], costs[:, 1]),
            ),
        )

    def _both(self, of: Callable[[OutcomeRow], float]) -> Floats:
        return np.array(
            [[of(first), of(following)] for first, following in zip(self.first, self.next, strict=True)],
            dtype=float,
        )


def pairs_of(rows: Iterable[OutcomeRow], *, first: str, next: str) -> Pairs:
    """The prompts with an answer of both arms, where the first arm's tokens are known."""
    by_arm: dict[str, dict[str, OutcomeRow]] = {first: {}, next: {}}
    for row in rows:
        if row.arm in by_arm:
            by_arm[row.arm][row.prompt_id] = row
    both = [
        (row, by_arm[next][row.prompt_id], row.first_tokens)
        for row in by_arm[first].values()
        if row.prompt_id in by_arm[next] and row.first_tokens is not None
    ]
    return Pairs(
        tuple(row for row, _, _ in both), tuple(row for _, row, _ in both), tuple(told for _, _, told in both)
    )


def price_of(num_input_tokens: Floats, num_output_tokens: Floats, costs: Floats) -> Price:
    """The price that these costs follow from, by least squares."""
    tokens = np.column_stack((num_input_tokens, num_output_tokens))
    found, *_ = np.linalg.lstsq(tokens, costs * 1e6, rcond=None)
    return Price(input=max(0.0, float(found[0])), output=max(0.0, float(found[1])))


def _num_output_tokens(row: OutcomeRow) -> float:
    return row.num_output_tokens
