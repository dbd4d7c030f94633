"""What a policy differs in from its base: some weights by name, and what is to be added to each.

Three formats are read, each in a module of its own, with numpy and the gguf library alone: `layers_delta`, the
quantised difference of whole matrices, `lora_delta`, peft's adapters, and `student_delta`, which has fewer layers than
its base. `requantize` adds them on the way.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from serving.engines.base import EngineError

Weights = npt.NDArray[np.float32]


class DeltaError(EngineError):
    """A difference cannot be read, or is not one to this base."""


class WeightDelta(Protocol):
    """What is to be added to a base."""

    @property
    def names(self) -> frozenset[str]:
        """The weights that it changes, as GGUF names them."""
        ...

    @property
    def kept_layers(self) -> tuple[int, ...] | None:
        """The base's layers that the policy consists of, rising; None where it has all of them."""
        ...

    def added_to(self, name: str, weights: Weights) -> Weights:
        """The policy's weights, rows in GGUF's order; `name` is one of `names`, `weights` the base's.

        Raises:
            DeltaError: the base's have another shape.
        """
        ...
