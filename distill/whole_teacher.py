"""A teacher in this process: it says everything, and its states can be matched."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from distill.divergence import WholeScores
from train.model.llama import Llama
from train.model.policy import Line
from train.model.precision import held_in
from train.rollouts.in_process import InProcessSampler


class WholeTeacher:
    """A `teacher.Teacher`.

    Args:
        model: read, never changed; what it is read for needs no gradient.
    """

    def __init__(self, model: Llama) -> None:
        self._model = model.requires_grad_(False)
        self._output = held_in(model.precision, model.lm_head.weight)
        self.sampler = InProcessSampler(model)

    @torch.no_grad()
    def read(self, line: Line, depths: Sequence[int]) -> tuple[WholeScores, list[Tensor]]:
        """As the protocol says."""
        hidden, states = states_behind(self._model, line, depths)
        return WholeScores(hidden, self._output), states


def states_behind(model: Llama, line: Line, depths: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
    """Normed states (rows, E) of the line's predictors, and those behind so many layers as they are.

    Behind layers below the last they are of every token (tokens, E), prompts too: they are computed anyway, and there
    are several times as many as predictors. Behind the last there are those of predictors alone.

    Args:
        model: any.
        line: of texts.
        depths: rising, from 1 to the number of layers.
    """
    states = model.model.embed_tokens(line.token_ids)
    last = model.shape.num_layers
    found: list[Tensor] = []
    for start, depth in pairwise((0, *(depth for depth in depths if depth < last))):
        states = model.through(states, line.positions, line.attend, range(start, depth))
        found.append(states)
    begun = max((depth for depth in depths if depth < last), default=0)
    states = model.through(states, line.positions, line.attend, range(begun, last), line.predictors)
    if last in depths:
        found.append(states)
    normed: Tensor = model.model.norm(states)
    return normed, found
