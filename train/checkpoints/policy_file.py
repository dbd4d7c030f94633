"""A policy that is a difference to a GGUF, read as if it were a GGUF of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from serving.engines.weight_delta import WeightDelta
from train.checkpoints.gguf_file import GgufFile


class PolicyFile(GgufFile):
    """Its values are the base's, its weights the policy's.

    Args:
        base: the base's file.
        delta: what is added to it.
    """

    def __init__(self, base: Path, delta: WeightDelta) -> None:
        super().__init__(base)
        self._delta = delta

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor of the policy, in single precision.

        Raises:
            CheckpointError: the base has none of that name.
            DeltaError: the difference is to another base.
        """
        weights = super().weight(name)
        return self._delta.added_to(name, weights) if name in self._delta.names else weights
