"""Does the same task get the same arm when it is only written differently?

A prompt is put in other words around it, in other letter case, with other white space, and followed by a turn that says
no more than "continue". What changes of the probabilities is measured, and how many *confident* decisions flip: those
whose gain, p(strongest) − p(weakest), is further than `margin` from the gain at which `strong_share` of the prompts go
up. That gain is what λ is under the metric `full_share`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.encoding import encode
from router.fitted import FittedModel
from router.outcome_table import view_of
from router.outcomes import Share

Floats = NDArray[np.float64]

STRONG_SHARE: Final = 0.3
MARGIN: Final = 0.05
"""In probability of success."""

_PREAMBLE: Final = (
    "Hello! I hope you are doing well. Could you please help me with the following? Thank you!\n\n"
)
_CHATTER: Final = "\n\nThanks so much in advance, you are a great help. Have a nice day!"

REWRITINGS: Final[Mapping[str, Callable[[str], Sequence[str]]]] = {
    "polite preamble": lambda text: (_PREAMBLE + text,),
    "trailing chatter": lambda text: (text + _CHATTER,),
    "both": lambda text: (_PREAMBLE + text + _CHATTER,),
    "upper case": lambda text: (text.upper(),),
    "lower case": lambda text: (text.lower(),),
    "title case": lambda text: (text.title(),),
    "white space": lambda text: (f"\n  {re.sub(r' +', '   ', text)}  \n\n",),
    "continue": lambda text: (text, "continue"),
}
"""The user turns that a prompt becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustnessReport:
    """What one way of rewriting did."""

    rewriting: str
    num_prompts: int
    flips: Share
    """Of the confident decisions, those that change their arm."""
    mean_change: float
    """Of the probabilities of all arms, taken absolutely."""
    mean_gain_change: float
    """Of the gain, with its sign: above 0 the rewritten prompts go up more often."""


def rewritten_probabilities(model: FittedModel, prompts: Sequence[str]) -> dict[str, Floats]:
    """What `model` makes of each prompt in each way of writing it; (prompts, arms)."""
    return {
        name: np.array(
            [model.probabilities(encode(view_of(*rewrite(prompt)), model.embed)) for prompt in prompts]
        )
        for name, rewrite in REWRITINGS.items()
    }


def robustness(
    probabilities: Floats,
    rewritten: Mapping[str, Floats],
    *,
    strong_share: float = STRONG_SHARE,
    margin: float = MARGIN,
) -> tuple[RobustnessReport, ...]:
    """How far `rewritten` probabilities, by way of writing, decide as those of the prompts themselves do."""
    gains = _gains(probabilities)
    threshold = float(np.quantile(gains, 1 - strong_share))
    is_confident = np.abs(gains - threshold) > margin
    reports = []
    for name, others in rewritten.items():
        is_flipped = (_gains(others) > threshold) != (gains > threshold)
        reports.append(
            RobustnessReport(
                rewriting=name,
                num_prompts=len(gains),
                flips=Share(
                    num=int(np.count_nonzero(is_flipped & is_confident)),
                    num_all=int(np.count_nonzero(is_confident)),
                ),
                mean_change=float(np.abs(others - probabilities).mean()),
                mean_gain_change=float((_gains(others) - gains).mean()),
            )
        )
    return tuple(reports)


def _gains(probabilities: Floats) -> Floats:
    return probabilities[:, -1] - probabilities[:, 0]
