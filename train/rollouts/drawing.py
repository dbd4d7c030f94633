"""Draws tokens from logits, each row by a number of its own, and says at which probability."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 256


def uniforms(seed: int, num: int) -> list[float]:
    """The first `num` numbers in [0, 1) of a seed's stream; a longer stream begins the same way."""
    return np.random.Generator(np.random.Philox(key=seed)).random(num).tolist()


def draw(
    logits: Tensor, numbers: Tensor, temperature: float, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A token for each number, and the logarithm of the probability at which it was drawn.

    The token is the one at which the cumulated probabilities pass the number. So one number decides, draws do not touch
    each other, and a distribution that is a little different gives nearly always the same token.

    Args:
        logits: (rows, V).
        numbers: (draws,) float64 in [0, 1).
        temperature: 0 takes the likeliest, and its log-probability is then that at temperature 1.
        rows: (draws,): which row each is drawn from; where None there is one draw from each.
    """
    if rows is None:
        rows = torch.arange(len(logits), device=logits.device)
    logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
    tokens = logits.argmax(-1)[rows] if temperature == 0 else _passed(logprobs.exp(), numbers, rows)
    return tokens, logprobs[rows, tokens]


def _passed(probabilities: Tensor, numbers: Tensor, rows: Tensor) -> Tensor:
    """Where the cumulated probabilities of its row pass each number: first the block, then the place in it."""
    blocks = functional.pad(probabilities, (0, -probabilities.shape[-1] % _BLOCK)).unflatten(-1, (-1, _BLOCK))
    cumulated = blocks.sum(-1, dtype=torch.float64).cumsum(-1)[rows]
    wanted = numbers[:, None] * cumulated[:, -1:]
    block = _first_above(cumulated, wanted)
    before = functional.pad(cumulated, (1, 0)).gather(-1, block)
    inside = blocks[rows, block[:, 0]].double().cumsum(-1)
    return (block * _BLOCK + _first_above(inside, wanted - before))[:, 0]


def _first_above(cumulated: Tensor, wanted: Tensor) -> Tensor:
    """(rows, 1): the first index above the wanted; where rounding leaves none, the last that has any probability."""
    last = torch.searchsorted(cumulated, cumulated[:, -1:].contiguous())
    return torch.minimum(torch.searchsorted(cumulated, wanted, right=True), last)
