"""What learns, as tensors by name: weights that move, the optimiser's moments, the reference; and back again.

Tensors are whole, whatever parts of them processes have: what several processes wrote, one reads, and the other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from train.critic import Critic
from train.parts import ReferencedModel
from train.sharding import parted_like, put, whole

MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")
"""Of AdamW."""


def learner_tensors(model: ReferencedModel, optimizer: Optimizer) -> dict[str, Tensor]:
    """All that a step depends on and changes."""
    tensors = moving_tensors(model.trained(), optimizer)
    for name, tensor in model.reference_weights().items():
        tensors[f"reference.{name}"] = tensor
    return tensors


def load_learner(tensors: Mapping[str, Tensor], model: ReferencedModel, optimizer: Optimizer) -> None:
    """Put them back."""
    load_moving(tensors, model.trained(), optimizer)
    model.refresh()
    if reference := _under("reference.", tensors):
        model.keep_reference(reference)


def critic_tensors(critic: Critic) -> dict[str, Tensor]:
    """The same of a critic."""
    tensors = moving_tensors(dict(critic.head.named_parameters()), critic.optimizer)
    return {f"critic.{name}": tensor for name, tensor in tensors.items()}


def load_critic(tensors: Mapping[str, Tensor], critic: Critic) -> None:
    """Put them back."""
    load_moving(_under("critic.", tensors), dict(critic.head.named_parameters()), critic.optimizer)


def moving_tensors(weights: Mapping[str, Parameter], optimizer: Optimizer) -> dict[str, Tensor]:
    """Weights by name, and their moments; the optimiser has them in the same order."""
    names = list(weights)
    tensors = {f"weight.{name}": whole(weight) for name, weight in weights.items()}
    for place, moments in optimizer.state_dict()["state"].items():
        for kind in MOMENTS:
            tensors[f"{kind}.{names[place]}"] = whole(moments[kind])
    return tensors


def load_moving(
    tensors: Mapping[str, Tensor], weights: Mapping[str, Parameter], optimizer: Optimizer
) -> None:
    """Put back what `moving_tensors` gave."""
    moments: dict[int, dict[str, Tensor]] = {}
    for place, (name, weight) in enumerate(weights.items()):
        put(tensors[f"weight.{name}"], weight)
        if f"step.{name}" in tensors:
            moments[place] = {kind: _moment(tensors[f"{kind}.{name}"], weight) for kind in MOMENTS}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def _moment(tensor: Tensor, weight: Parameter) -> Tensor:
    """Parted as its weight; the count of steps is a number, and whole everywhere."""
    return parted_like(tensor, weight) if tensor.shape == weight.shape else tensor


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: each for name, each in tensors.items() if name.startswith(prefix)}
