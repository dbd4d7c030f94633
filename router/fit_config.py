"""How to fit the difficulty model, and when not to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from router.boosting import BoostConfig
from router.outcome_table import OutcomeTable

LEAST_PROMPTS: Final = 200
"""With outcomes, of each arm."""
LEAST_OF_A_CLASS: Final = 20
"""Successes, and failures, of each arm."""


class FitRefusedError(ValueError):
    """No honest model can be made of these outcomes; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """How to fit."""

    penalty: float = 1.0
    """On the squared weights: more is smoother."""
    domain_share: float = 0.5
    """The share of the domain's mean in what is regressed on, in [0, 1); none where there is but one domain."""
    num_folds: int = 5
    seed: int = 0
    """Of the deal of groups to folds, and of the copies."""
    num_copies: int = 3
    """Of each prompt, written otherwise (`router.copies`), to fit on beside it: a prompt and its copies count once."""
    max_copies: int = 3000
    """Of all prompts together. In a table of more than so many prompts some have one copy, and others none."""
    max_steps: int = 80
    """Of the regressions' optimiser."""
    boosting: BoostConfig = field(default_factory=BoostConfig)
    """`num_trees` is the most that may be chosen."""


def refuse_poor(table: OutcomeTable, *, share: float = 1.0) -> None:
    """Return where there are outcomes enough of each arm, and of each class; or this share of what is enough.

    Raises:
        FitRefusedError: there are not.
    """
    least_prompts, least_of_a_class = int(share * LEAST_PROMPTS), int(share * LEAST_OF_A_CLASS)
    for arm, name in enumerate(table.arms):
        outcomes = table.successes[~np.isnan(table.successes[:, arm]), arm]
        if len(outcomes) < least_prompts:
            raise FitRefusedError(
                f"{len(outcomes)} outcomes of arm {name!r} are too few for a model; collect at least {least_prompts}"
            )
        num_successes = float(outcomes.sum())
        least = min(num_successes, len(outcomes) - num_successes)
        if least < least_of_a_class:
            kind = "successes" if num_successes <= least else "failures"
            raise FitRefusedError(
                f"arm {name!r} has only {least:g} {kind} among {len(outcomes)} outcomes, and {least_of_a_class} are "
                "needed to learn from; collect prompts of other levels"
            )
