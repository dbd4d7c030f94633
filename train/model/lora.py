"""Low-rank adapters (arXiv:2106.09685): W x + (alpha / rank) · B A x, with B zero at the start.

Files are those of peft, so that engines load them; `merge` makes plain weights of an adapted model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from train.model.llama import Llama
from train.model.trainable import freeze

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL_LINEAR = (*ATTENTION, "gate_proj", "up_proj", "down_proj")
_PREFIX = "base_model.model."


class LoraLinear(nn.Module):
    """A frozen linear map and its adapter."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        like = base.weight
        first = torch.empty(rank, base.in_features)
        bound = math.sqrt(1 / base.in_features)  # peft's: Kaiming, uniform, a = √5
        first.uniform_(-bound, bound, generator=generator)
        self.lora_A = nn.Parameter(first.to(like))
        self.lora_B = nn.Parameter(like.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """(N, in) → (N, out)."""
        return self.base(x) + (x @ self.lora_A.T) @ self.lora_B.T * self.scale

    def merged(self) -> Tensor:
        """(out, in): the one matrix that does the same."""
        return self.base.weight + self.scale * self.lora_B @ self.lora_A


def add_lora(
    model: Llama,
    *,
    rank: int,
    alpha: float,
    seed: int,
    targets: Sequence[str] = ALL_LINEAR,
    num_layers: int | None = None,
) -> None:
    """Freeze the model and put adapters on the `targets` of its last `num_layers` layers; of all where None."""
    freeze(model)
    generator = torch.Generator().manual_seed(seed)
    for layer in model.model.layers[-(num_layers or model.shape.num_layers) :]:
        for parent in (layer.self_attn, layer.mlp):
            for name in [name for name, _ in parent.named_children() if name in targets]:
                setattr(parent, name, LoraLinear(parent.get_submodule(name), rank, alpha, generator))


def adapters(model: Llama) -> Iterator[tuple[str, LoraLinear]]:
    """Every adapter by the name of the module that it stands for."""
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            yield name, module


def merge(model: Llama) -> None:
    """Replace every adapted map by the one plain map that does the same."""
    for name, adapter in list(adapters(model)):
        parent_name, _, own_name = name.rpartition(".")
        with torch.no_grad():
            adapter.base.weight.copy_(adapter.merged())
        setattr(model.get_submodule(parent_name), own_name, adapter.base)


def effective_weight(linear: nn.Module) -> Tensor:
    """(out, in) of a linear map, its adapter merged in."""
    if isinstance(linear, LoraLinear):
        return linear.merged().detach()
    assert isinstance(linear, nn.Linear), "layers are made of linear maps"
    return linear.weight.detach()


def save_adapter(model: Llama, directory: Path, *, base: str, dtype: torch.dtype | None = None) -> None:
    """Write `adapter_model.safetensors` and `adapter_config.json` as peft does.

    Args:
        model: with adapters, all of one rank and scale.
        directory: exists.
        base: what the adapter belongs to, for `base_model_name_or_path`.
        dtype: of the file; the model's where None.
    """
    found = dict(adapters(model))
    weights: dict[str, Tensor] = {}
    for name, adapter in found.items():
        weights[f"{_PREFIX}{name}.lora_A.weight"] = adapter.lora_A.detach().to(dtype).contiguous()
        weights[f"{_PREFIX}{name}.lora_B.weight"] = adapter.lora_B.detach().to(dtype).contiguous()
    save_file(weights, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    one = next(iter(found.values()))
    rank = len(one.lora_A)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": one.scale * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.rpartition(".")[2] for name in found}),
        "layers_to_transform": sorted({int(name.split(".")[2]) for name in found}),
        "layers_pattern": "layers",
        "inference_mode": True,
    }
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_adapter(model: Llama, directory: Path) -> None:
    """Read weights into a model whose adapters are in place (`add_lora` with the same arguments).

    Raises:
        ValueError: they are others.
    """
    weights = load_file(directory / "adapter_model.safetensors")
    found = dict(adapters(model))
    names = {f"{_PREFIX}{name}.lora_{part}.weight" for name in found for part in "AB"}
    if names != set(weights):
        raise ValueError(f"{directory} adapts other modules than the model has adapters on")
    with torch.no_grad():
        for name, adapter in found.items():
            adapter.lora_A.copy_(weights[f"{_PREFIX}{name}.lora_A.weight"])
            adapter.lora_B.copy_(weights[f"{_PREFIX}{name}.lora_B.weight"])
