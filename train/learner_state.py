"""What learns, as tensors by name: weights that move, the optimiser's moments, the reference; and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from torch import Tensor
from torch.optim import Optimizer

from train.parts import ReferencedModel

MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")
"""Of AdamW."""


def learner_tensors(model: ReferencedModel, optimizer: Optimizer) -> dict[str, Tensor]:
    """All that a step depends on and changes."""
    weights = model.trained()
    names = list(weights)
    tensors = {f"weight.{name}": weight.detach() for name, weight in weights.items()}
    for place, moments in optimizer.state_dict()["state"].items():
        for kind in MOMENTS:
            tensors[f"{kind}.{names[place]}"] = moments[kind]
    for name, tensor in model.reference_weights().items():
        tensors[f"reference.{name}"] = tensor
    return tensors


def load_learner(tensors: Mapping[str, Tensor], model: ReferencedModel, optimizer: Optimizer) -> None:
    """Put them back."""
    moments: dict[int, dict[str, Tensor]] = {}
    for place, (name, weight) in enumerate(model.trained().items()):
        weight.data.copy_(tensors[f"weight.{name}"])
        if f"step.{name}" in tensors:
            moments[place] = {kind: tensors[f"{kind}.{name}"] for kind in MOMENTS}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    prefix = "reference."
    reference = {name[len(prefix) :]: each for name, each in tensors.items() if name.startswith(prefix)}
    if reference:
        model.keep_reference(reference)
