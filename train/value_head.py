"""What a critic consists of: a head that says how well things stand, and the scale of returns that it is taught on.

The head answers in units of the scale's deviation from the scale's mean. Whenever the scale moves, the head's last map
is moved against it, so that no value changes by that alone (PopArt, arXiv 1602.07714).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

LEAST_DEVIATION: Final = 0.05
"""Of returns; where they hardly differ they are not blown up beyond twenty times."""
MEMORY: Final = 0.95
"""Of the running moments, what is kept at each step."""


@dataclass(slots=True)
class ReturnScale:
    """The running mean and mean square of returns, and with them the way to units and back."""

    mean: float = 0.0
    mean_square: float = 1.0
    is_set: bool = False
    """Whether any return was seen; before, units are those of the score itself."""

    @property
    def deviation(self) -> float:
        """Of returns, from their mean."""
        return max(LEAST_DEVIATION, sqrt(max(0.0, self.mean_square - self.mean**2)))

    def observe(self, returns: Tensor) -> None:
        """Take in a step's returns; the first ones set the scale."""
        mean, mean_square = float(returns.mean()), float(returns.square().mean())
        kept = MEMORY if self.is_set else 0.0
        self.mean = kept * self.mean + (1 - kept) * mean
        self.mean_square = kept * self.mean_square + (1 - kept) * mean_square
        self.is_set = True

    def to_units(self, returns: Tensor) -> Tensor:
        """Returns as deviations from their mean."""
        return (returns - self.mean) / self.deviation

    def from_units(self, units: Tensor) -> Tensor:
        """Back again."""
        return units * self.deviation + self.mean

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"mean": self.mean, "mean_square": self.mean_square, "is_set": self.is_set}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.mean, self.mean_square = plain["mean"], plain["mean_square"]
        self.is_set = plain["is_set"]


class ValueHead(nn.Module):
    """Hidden states to values, in a `ReturnScale`'s units.

    States are brought to a root mean square of 1 first, so that one learning rate suits every base. The last map
    begins at zero: all values are the mean of returns until something is known.

    Args:
        hidden_size: E, of the policy.
        width: of the layer between; 0 for none, a linear head.
        seed: of the first map.
    """

    def __init__(self, hidden_size: int, width: int, *, seed: int) -> None:
        super().__init__()
        self.first = nn.utils.skip_init(nn.Linear, hidden_size, width) if width else None
        self.last = nn.utils.skip_init(nn.Linear, width or hidden_size, 1)
        with torch.no_grad():
            for weight in self.parameters():
                weight.zero_()
            if self.first is not None:
                generator = torch.Generator().manual_seed(seed)
                self.first.weight.normal_(0.0, hidden_size**-0.5, generator=generator)

    def forward(self, hidden: Tensor) -> Tensor:
        """(tokens, E) → (tokens,)."""
        states = hidden.to(self.last.weight.dtype)
        states = functional.rms_norm(states, states.shape[-1:])
        if self.first is not None:
            states = functional.gelu(self.first(states))
        values: Tensor = self.last(states)[:, 0]
        return values

    @torch.no_grad()
    def observe(self, scale: ReturnScale, returns: Tensor) -> None:
        """Let `scale` take these returns in, and say of every state in its new units what was said in the old ones.

        Where the scale is set by them there was nothing to keep: values begin at the mean of these returns.
        """
        was_set, mean, deviation = scale.is_set, scale.mean, scale.deviation
        scale.observe(returns)
        if was_set:
            self.last.weight.mul_(deviation / scale.deviation)
            self.last.bias.mul_(deviation).add_(mean - scale.mean).div_(scale.deviation)


@dataclass(frozen=True, slots=True)
class ValueLoss:
    """A value loss and what it saw on the way."""

    loss: Tensor
    """Scalar."""
    num_clipped: int
    """Tokens whose gradient the clip took away."""


def value_loss(values: Tensor, anchors: Tensor, targets: Tensor, clip: float, num_tokens: int) -> ValueLoss:
    """½·max((V − G)², (V₀ + clip(V − V₀, ±clip) − G)²), summed and divided by the step's tokens (PPO's value clipping).

    It is what PPO's own code does (arXiv 1707.06347 has the loss without it): a value gains nothing by a move of more
    than `clip` in one step.

    Args:
        values: V, (tokens,), with gradient.
        anchors: V₀, what they were when the step began.
        targets: G, the returns.
        clip: in the units of all three.
        num_tokens: of the whole step, all its micro-batches.
    """
    bounded = anchors + (values - anchors).clamp(-clip, clip)
    free, held = (values - targets).square(), (bounded - targets).square()
    is_clipped = (held > free) & ((values - anchors).abs() > clip)
    return ValueLoss(0.5 * torch.maximum(free, held).sum() / max(1, num_tokens), int(is_clipped.sum()))
