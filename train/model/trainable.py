"""Which weights move: all of them, the top layers, or low-rank adapters in them (`lora.add_lora`)."""

from __future__ import annotations

from torch import nn
from torch.nn import Parameter

from train.model.llama import Llama


def freeze(model: Llama) -> None:
    """Nothing moves."""
    model.requires_grad_(False)


def train_all(model: Llama) -> None:
    """Everything moves, the embedding too."""
    model.requires_grad_(True)


def train_top_layers(model: Llama, num_layers: int) -> None:
    """The last `num_layers` layers and the norm behind them move; embedding and output matrix stay, tied or not."""
    if not 0 < num_layers <= model.shape.num_layers:
        raise ValueError(f"{num_layers} layers to train, and the model has {model.shape.num_layers}")
    freeze(model)
    model.model.layers[-num_layers:].requires_grad_(True)
    model.model.norm.requires_grad_(True)


def first_trained_layer(model: Llama) -> int:
    """The lowest layer with a weight that moves; 0 where the embedding does, the number of layers where none does."""
    if model.model.embed_tokens.weight.requires_grad:
        return 0
    moving = (index for index, layer in enumerate(model.model.layers) if moves(layer))
    return next(moving, model.shape.num_layers)


def moves(module: nn.Module) -> bool:
    """Whether any of its weights does."""
    return any(weight.requires_grad for weight in module.parameters())


def moving(module: nn.Module) -> dict[str, Parameter]:
    """The weights that move, by name."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
