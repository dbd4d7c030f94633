"""Hidden-state matching: layers of a student are drawn to layers of its teacher (after arXiv:1909.10351,
which compares states as they are).

A token's states are compared after both are scaled to the same root mean square, as the norm above them would scale
them: what a layer adds grows along a model's depth, and a mean of plain squares would be of the last layers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

EPSILON = 1e-6
"""Beside a mean square, so that states of nothing but zeros have a slope."""


def matching_loss(
    student: Sequence[Tensor], teacher: Sequence[Tensor], projections: Sequence[Tensor] | None = None
) -> Tensor:
    """The mean over pairs of layers, tokens and channels of the squared difference; 0 where alike, 4 where opposite.

    Args:
        student: a layer's states each, (tokens, E).
        teacher: what each is drawn to, (tokens, E'); no gradient goes there.
        projections: (E', E) for each pair, where a student is narrower; trained beside it.

    Raises:
        ValueError: the layers are not pairs, there are none, or their widths differ.
    """
    if not student or len(student) != len(teacher) or len(projections or student) != len(student):
        raise ValueError(f"{len(student)} layers of the student are matched to {len(teacher)} of the teacher")
    losses = []
    for index, (mine, other) in enumerate(zip(student, teacher, strict=True)):
        states = mine @ projections[index].T if projections else mine
        if states.shape != other.shape:
            raise ValueError(
                f"states of {tuple(states.shape)} do not match {tuple(other.shape)}; give a projection"
            )
        losses.append((_scaled(states) - _scaled(other.detach())).square().mean())
    return torch.stack(losses).mean()


def _scaled(states: Tensor) -> Tensor:
    return states * (states.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
