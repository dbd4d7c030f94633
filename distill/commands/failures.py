"""What goes wrong in the sub-verbs of `tierwise distill`, said in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable


def reported(work: Callable[[], int]) -> int:
    """Do it; 1 with the reason on stderr where it cannot be done."""
    from distill.cost_model import MissingTimeError, UnprofitableDraftError
    from distill.teacher import TokenizerMismatchError
    from serving.bringup.errors import BringupError
    from serving.engines.base import EngineError
    from serving.registry.errors import RegistryError
    from serving.settings_sources import SettingsError
    from train.checkpoints.directory import CheckpointError
    from train.codec import CodecError
    from train.domains.catalog import UnknownDomainError
    from train.model.shape import UnsupportedModelError
    from train.recipe import RecipeError
    from train.run_directory import RunError

    try:
        return work()
    except (
        BringupError,
        CheckpointError,
        CodecError,
        EngineError,
        MissingTimeError,
        RecipeError,
        RegistryError,
        RunError,
        SettingsError,
        TokenizerMismatchError,
        UnknownDomainError,
        UnprofitableDraftError,
        UnsupportedModelError,
    ) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
