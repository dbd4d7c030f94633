"""Which channels of the feed-forward layers go: those whose going is expected to change least of what the model says.

A channel is a row of `gate_proj` and `up_proj` and the column of `down_proj` that they feed. A gate m of one stands
before each column. At m = 1 the divergence from the whole model and its gradient are 0, so a channel's cost is of
second order: ½ E[(∂ ln p(y) / ∂m)²], y drawn from the model itself, which is the diagonal of the Fisher information
(arXiv:1801.05787, 2204.09656). Draws at the tokens of an answer are independent given the tokens before them and their
gradients have mean 0, so a text's cost is the square of the gradient of their sum: one backward pass a text.

It is an estimate for one channel at a time. What many together cost is measured (`fidelity`), beside as many chosen by
position and by chance. A Llama's format has one number of channels for all layers, so each layer loses as many.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor, nn

from distill.calibration import CalibrationText
from train.model.llama import Llama
from train.model.tree import grow
from train.model.tree_attention import TreeAttention
from train.seeds import seed_of

BLOCK: Final = 32
"""Channels; rows of `down_proj` are quantised in blocks of so many (K-quants: of 256)."""

Channels = tuple[tuple[int, ...], ...]
"""Of each layer, those that stay, rising."""


def importance(
    model: Llama,
    texts: Sequence[CalibrationText],
    *,
    seed: int = 0,
    on_measured: Callable[[], None] = lambda: None,
) -> Tensor:
    """What each channel is expected to cost: (layers, channels), nats over all texts together.

    Args:
        model: read, never changed.
        texts: at least one.
        seed: of the draws.
        on_measured: called after each text.

    Raises:
        ValueError: there are no texts.
    """
    if not texts:
        raise ValueError("a channel's cost is measured on texts, and there must be one")
    costs = torch.zeros(model.shape.num_layers, model.shape.intermediate_size)
    with _gated(model) as gates:
        for index, text in enumerate(texts):
            told = _log_likelihood_of_draws(model, text, seed_of(seed, "channels", index))
            costs += torch.stack([each.cpu() for each in torch.autograd.grad(told, gates)]).float().square()
            on_measured()
    return costs / 2


def dearest(costs: Tensor, num_kept: int) -> Channels:
    """The channels of each layer that are dearest to lose; of equals, the lower ones stay.

    Args:
        costs: (layers, channels).
        num_kept: of each layer.

    Raises:
        ValueError: there are not so many, or none would stay.
    """
    _check(num_kept, costs.shape[1])
    order = costs.sort(dim=1, descending=True, stable=True).indices[:, :num_kept]
    return tuple(tuple(sorted(each)) for each in order.tolist())


def unmeasured(num_layers: int, num_channels: int, num_kept: int, *, seed: int = 0) -> dict[str, Channels]:
    """As many that nobody measured for: the first ones, and some by chance.

    Raises:
        ValueError: there are not so many, or none would stay.
    """
    _check(num_kept, num_channels)
    drawn = random.Random(seed_of(seed, "channels", "by chance"))
    by_chance = tuple(tuple(sorted(drawn.sample(range(num_channels), num_kept))) for _ in range(num_layers))
    return {"first": (tuple(range(num_kept)),) * num_layers, "by chance": by_chance}


def widths_between(num_channels: int, num_kept: int, number: int) -> list[int]:
    """So many numbers of channels from all of them down to what is kept, falling, in whole blocks but for the last."""
    steps = (num_channels - (num_channels - num_kept) * step / number for step in range(1, number))
    found = {round(each / BLOCK) * BLOCK for each in steps}
    return [*sorted((each for each in found if num_kept < each < num_channels), reverse=True), num_kept]


def _check(num_kept: int, num_channels: int) -> None:
    if not 0 < num_kept <= num_channels:
        raise ValueError(
            f"cannot keep {num_kept} of {num_channels} channels; keep some, and no more than there are"
        )


def _log_likelihood_of_draws(model: Llama, text: CalibrationText, seed: int) -> Tensor:
    """Σ ln p(y) over the places of the answer, y drawn from p; a scalar."""
    weight = model.lm_head.weight
    tree = grow([text.token_ids[:-1]])
    states = model.model.embed_tokens(torch.tensor(tree.token_ids, device=weight.device))
    hidden = model.through(
        states,
        torch.tensor(tree.positions, device=weight.device),
        TreeAttention(tree, weight.dtype, weight.device),
        range(model.shape.num_layers),
        torch.arange(len(text.prompt) - 1, len(tree.token_ids), device=weight.device),
    )
    logprobs = model.logits(model.model.norm(hidden)).float().log_softmax(-1)
    generator = torch.Generator(device=weight.device).manual_seed(seed)
    drawn = torch.multinomial(logprobs.detach().exp(), 1, generator=generator)
    return logprobs.gather(1, drawn).sum()


@contextmanager
def _gated(model: Llama) -> Iterator[list[Tensor]]:
    """A gate of ones before each column of every `down_proj`, (channels,) a layer, and no other weight that moves."""
    moving = [weight for weight in model.parameters() if weight.requires_grad]
    gates: list[Tensor] = []
    hooks = []
    for layer in model.model.layers:
        down = layer.mlp.down_proj
        gate = torch.ones(
            down.in_features, dtype=down.weight.dtype, device=down.weight.device, requires_grad=True
        )
        gates.append(gate)
        hooks.append(down.register_forward_pre_hook(_multiplied_by(gate)))
    try:
        for weight in moving:
            weight.requires_grad_(False)
        with torch.enable_grad():
            yield gates
    finally:
        for weight in moving:
            weight.requires_grad_(True)
        for hook in hooks:
            hook.remove()


def _multiplied_by(gate: Tensor) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
    return lambda _, given: (given[0] * gate,)
