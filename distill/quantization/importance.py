"""Which inputs of a linear map are large: an error in a weight costs as much as what it is multiplied with.

With inputs x that hang together little, the expected squared error of a row's product is Σ E[x²] (w − ŵ)²: the diagonal
of what GPTQ (arXiv:2210.17323) takes whole, and llama.cpp's importance matrix. Means are over all tokens of texts,
prompts too; what they begin with alike counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from distill.calibration import CalibrationText
from train.model.llama import Llama
from train.model.tree import grow
from train.model.tree_attention import TreeAttention


@torch.no_grad()
def mean_squares(model: Llama, texts: Sequence[CalibrationText]) -> dict[str, Tensor]:
    """Name of each weight of a layer's linear maps → (I,), the mean square of each of its inputs."""
    found: dict[str, Tensor] = {}

    def hook(name: str) -> Any:
        def before(_: nn.Module, args: tuple[Any, ...]) -> None:
            found[name] = args[0].square().mean(0)

        return before

    maps = {
        f"model.{name}.weight": module
        for name, module in model.model.named_modules()
        if isinstance(module, nn.Linear)
    }
    hooks = [module.register_forward_pre_hook(hook(name)) for name, module in maps.items()]
    try:
        tree = grow([text.token_ids for text in texts])
        weight = model.model.embed_tokens.weight
        attend = TreeAttention(tree, weight.dtype, weight.device)
        positions = torch.tensor(tree.positions, device=weight.device)
        model(torch.tensor(tree.token_ids, device=weight.device), positions, attend)
    finally:
        for each in hooks:
            each.remove()
    return found
