"""What goes wrong in the sub-verbs of `tierwise distill`, said in one line."""

from __future__ import annotations

from collections.abc import Callable

from train.commands import failures


def reported(work: Callable[[], int]) -> int:
    """Do it; 1 with the reason on stderr where it cannot be done."""
    return failures.reported(work, others=_failures)


def _failures() -> failures.Errors:
    from distill.cost_model import MissingTimeError, UnprofitableDraftError
    from distill.gate import RefusedError
    from distill.served_traffic import TrafficError
    from distill.teacher import TokenizerMismatchError

    return (MissingTimeError, RefusedError, TokenizerMismatchError, TrafficError, UnprofitableDraftError)
