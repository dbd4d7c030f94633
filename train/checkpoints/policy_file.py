"""A policy that is a difference to a GGUF, read as if it were a GGUF of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.engines.llama_names import renumbered
from serving.engines.weight_delta import WeightDelta
from train.checkpoints.gguf_file import GgufFile


class PolicyFile(GgufFile):
    """Its values are the base's, its weights the policy's; of a student with fewer layers, so many and renumbered.

    Args:
        base: the base's file.
        delta: what is added to it.
    """

    def __init__(self, base: Path, delta: WeightDelta) -> None:
        super().__init__(base)
        self._delta = delta
        self._kept = delta.kept_layers
        self._of_base = {name: name for name in self.tensors}
        if self._kept is not None:
            kept = self._kept
            self._of_base = {
                new: name for name in self.tensors if (new := renumbered(name, kept)) is not None
            }
            self.tensors = {new: self.tensors[name] for new, name in self._of_base.items()}

    def get(self, key: str, default: Any = None) -> Any:
        """As `GgufFile`'s, the number of layers being the policy's."""
        if self._kept is not None and key.endswith(".block_count"):
            return len(self._kept)
        return super().get(key, default)

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor of the policy, in single precision.

        Raises:
            CheckpointError: the base has none of that name.
            DeltaError: the difference is to another base.
        """
        weights = super().weight(name)
        of_base = self._of_base[name]
        return self._delta.added_to(of_base, weights) if of_base in self._delta.names else weights
