"""Early exit: training that lets the first k layers of a model stand alone, for every k asked, and what stands then.

An exit behind layer k is the model's own last norm and output matrix on layer k's states; no weights are added. The
joint loss is the weighted mean of a loss at each exit, the whole model's among them (LayerSkip, arXiv:2404.16710,
section 4.1.2). So one forward pass through all layers serves all exits, and what is exported for one of them, its
layers with norm and output matrix, says to the letter what the exit says. Engines serve that checkpoint as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

import torch
from torch import Tensor

from distill.calibration import CalibrationText
from distill.pruning.pruned import with_layers
from train.batch import Group
from train.credit import by_heart
from train.model.head import predict
from train.model.llama import Llama
from train.model.policy import Line


class Weighting(StrEnum):
    """How much each exit counts."""

    EQUAL = "equal"
    DEPTH = "depth"
    """In proportion to its depth: a deep exit has more to lose, and the whole model most."""

    def shares(self, exits: Sequence[int]) -> dict[int, float]:
        """Depth → its share of the loss; together 1."""
        weights = {depth: 1.0 if self is Weighting.EQUAL else float(depth) for depth in exits}
        return {depth: weight / sum(weights.values()) for depth, weight in weights.items()}


def exits_of(num_layers: int, asked: Sequence[int]) -> tuple[int, ...]:
    """The exits, rising, the whole model last.

    Raises:
        ValueError: the model has no such depth.
    """
    if bad := [depth for depth in asked if not 0 < depth <= num_layers]:
        raise ValueError(f"no exit behind layer {bad[0]}: the model has {num_layers}; name 1 to {num_layers}")
    return tuple(sorted({*asked, num_layers}))


def exit_states(model: Llama, line: Line, exits: Sequence[int]) -> dict[int, Tensor]:
    """Depth → normed states (rows, E) of the line's predictors behind so many layers, by one pass through the layers.

    Args:
        model: any.
        line: what is read.
        exits: rising.
    """
    states = model.model.embed_tokens(line.token_ids)
    found: dict[int, Tensor] = {}
    for start, depth in pairwise((0, *exits)):
        states = model.through(states, line.positions, line.attend, range(start, depth))
        found[depth] = model.model.norm(states.index_select(0, line.predictors))
    return found


def joint_loss(
    states: Mapping[int, Tensor], shares: Mapping[int, float], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, dict[int, float]]:
    """Σ share · loss over the exits, and each exit's loss.

    Args:
        states: of `exit_states`.
        shares: of each exit.
        loss: of normed states (rows, E), a mean over rows: cross-entropy, or a divergence from a teacher.
    """
    losses = {depth: loss(hidden) for depth, hidden in states.items()}
    total = torch.stack([shares[depth] * each for depth, each in losses.items()]).sum()
    return total, {depth: float(each.detach()) for depth, each in losses.items()}


def cross_entropy(model: Llama, line: Line) -> Callable[[Tensor], Tensor]:
    """For `joint_loss`: −ln q of the line's targets, the mean over them, in nats."""

    def loss(hidden: Tensor) -> Tensor:
        weight = model.lm_head.weight
        logprobs, _ = predict(hidden, weight, line.rows, line.targets, line.temperatures)
        return -logprobs.mean()

    return loss


def lines_of(model: Llama, texts: Sequence[CalibrationText], *, per_line: int) -> Iterator[Line]:
    """Texts in their order, so many at once; their answers are the targets."""
    for start in range(0, len(texts), per_line):
        yield Line(tuple(map(_group, texts[start : start + per_line])), model.lm_head.weight)


def standing_alone(model: Llama, depth: int) -> Llama:
    """The first `depth` layers with norm and output matrix, as a model that shares no weights with the whole."""
    return with_layers(model, range(depth))


def _group(text: CalibrationText) -> Group:
    return by_heart(text.domain, text.prompt, text.answer)
