"""What goes wrong in a sub-verb, said in one line and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable

Errors = tuple[type[Exception], ...]


def reported(
    work: Callable[[], int],
    *,
    wrong_use: type[Exception] | Errors = (),
    others: Callable[[], Errors] = lambda: (),
) -> int:
    """Do it; 1 with the reason on stderr where it cannot be done.

    Args:
        work: gives the exit status.
        wrong_use: of what may go wrong, what the caller asked for and cannot be: 2.
        others: what else may be said so, for rooms that build on this one; imported when something went wrong.
    """
    try:
        return work()
    except wrong_use as error:
        return _said(error, 2)
    # evaluated only now: a command that goes well imports none of them
    except (*_failures(), *others()) as error:
        return _said(error, 1)


def _said(error: Exception, status: int) -> int:
    print(f"tierwise: {error}", file=sys.stderr)
    return status


def _failures() -> Errors:
    """Errors whose message names the remedy."""
    from serving.bringup.errors import BringupError
    from serving.engines.base import EngineError
    from serving.registry.errors import RegistryError
    from serving.settings_sources import SettingsError
    from train.checkpoints.directory import CheckpointError
    from train.codec import CodecError
    from train.context import ContextError
    from train.domains.audit import UnauditedError
    from train.domains.catalog import UnknownDomainError
    from train.model.rope import UnsupportedScalingError
    from train.model.shape import UnsupportedModelError
    from train.processes import ApartError, TogetherError
    from train.recipe import RecipeError
    from train.rollouts.rollout import MissingLogprobsError
    from train.run_directory import RunError
    from train.scheduler.queue_directory import QueueError
    from train.steps import TrainingError

    return (
        ApartError,
        BringupError,
        CheckpointError,
        CodecError,
        ContextError,
        EngineError,
        MissingLogprobsError,
        QueueError,
        RecipeError,
        RegistryError,
        RunError,
        SettingsError,
        TogetherError,
        TrainingError,
        UnauditedError,
        UnknownDomainError,
        UnsupportedModelError,
        UnsupportedScalingError,
    )
