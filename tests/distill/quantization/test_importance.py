"""How large each input of a linear map is on texts, and that errors are kept where it matters less."""

from __future__ import annotations

import torch
from torch.nn import functional

from distill.calibration import CalibrationText
from distill.quantization.compressed_tensors import is_quantized
from distill.quantization.importance import mean_squares
from distill.quantization.integers import SHARES, round_to_integers
from tests.train.model.tiny import tiny_llama
from train.model.llama import Llama
from train.model.weights import state_of

torch.set_num_threads(1)
TEXTS = [CalibrationText("sums", (1, 2, 3), (4, 5)), CalibrationText("sums", (1, 2, 3), (4, 6))]


def first_inputs(model: Llama) -> torch.Tensor:
    """What the first layer's projections see: normed embeddings, of tokens that do not depend on their past."""
    embedded = model.model.embed_tokens.weight[[1, 2, 3, 4, 5, 6]]
    norm = model.model.layers[0].input_layernorm
    assert isinstance(norm.weight, torch.Tensor)
    return functional.rms_norm(embedded, embedded.shape[-1:], norm.weight, model.shape.norm_eps)


@torch.no_grad()
def test_mean_squares() -> None:
    """By hand in the first layer, what both texts begin with once; one for every linear map, and hooks are gone."""
    model = tiny_llama(dtype=torch.float32)
    found = mean_squares(model, TEXTS)
    expected = first_inputs(model).square().mean(0)
    for name in "qkv":
        torch.testing.assert_close(found[f"model.layers.0.self_attn.{name}_proj.weight"], expected)
    state = state_of(model)
    assert found.keys() == {name for name in state if is_quantized(name)}
    assert all(found[name].shape == (state[name].shape[1],) for name in found)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_weighed_errors_are_least() -> None:
    """Products with inputs of these sizes are nearer than without; plain errors are larger for it."""
    drawn = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 128, generator=drawn)
    sizes = torch.rand(128, generator=drawn).pow(3) * 10
    errors = {}
    for name, importance in (("weighed", sizes), ("plain", None)):
        found = round_to_integers(weight, 4, group_size=32, shares=SHARES, importance=importance)
        apart = (found.floats() - weight).square()
        errors[name] = (float((apart * sizes).sum()), float(apart.sum()))
    assert errors["weighed"][0] < 0.95 * errors["plain"][0]
    assert errors["weighed"][1] > errors["plain"][1]
