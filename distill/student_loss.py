"""What a student is taught by one line of texts.

For T tokens behind the prompts of a step, R of them in reference answers, the loss is

    Σ D(teacher, student) / T  +  w_ce Σ_R −ln q / R  +  w_h H

with D the phase's divergence at the place before each token (`divergence`), q the student's probability of a
reference's token, and H the distance between states behind each layer that was kept (`hidden`): the student's i-th
layer does the work of all of the base's from the one that it was up to the next that was kept, so that is what its
states are held against. No gradient goes through the drawing of answers (arXiv:2306.13649, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import torch
from torch import Tensor

from distill.divergence import Measure, diverge, forward_kl, jsd, reverse_kl, total_variation
from distill.hidden import matching_loss
from distill.recipe import PhaseSettings
from distill.teacher import Teacher
from distill.whole_teacher import states_behind
from train.batch import Group
from train.model.head import predict
from train.model.llama import Llama
from train.model.policy import Line
from train.model.precision import held_in


class Origin(StrEnum):
    """Whose answer a text has; what groups of a student's training are called by."""

    REFERENCE = "reference"
    TEACHER = "teacher"
    STUDENT = "student"


MEASURES: Final[Mapping[str, Callable[[float], Measure]]] = {
    "forward_kl": lambda _: forward_kl,
    "reverse_kl": lambda _: reverse_kl,
    "jsd": jsd,
    "total_variation": lambda _: total_variation,
}
"""By `PhaseSettings.divergence`, of its `beta`."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Depths whose states are compared, of student and teacher, pair by pair; rising."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]

    @classmethod
    def of(cls, kept_layers: Sequence[int], num_layers: int) -> Matched:
        """Every layer that was kept of so many."""
        return cls(tuple(range(1, len(kept_layers) + 1)), (*kept_layers[1:], num_layers))


@dataclass(frozen=True, slots=True)
class Counts:
    """The denominators of a step, over all its lines."""

    num_tokens: int
    num_referenced: int

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Counts:
        """Of these groups' answers."""
        sizes = [(group.domain, len(credit.token_ids)) for group in groups for credit in group.credits]
        return cls(
            sum(size for _, size in sizes),
            sum(size for origin, size in sizes if origin == Origin.REFERENCE),
        )


@dataclass(slots=True)
class Seen:
    """What a step's lines came to so far."""

    num_computed: int = 0
    """Tokens of forward passes."""
    sums: dict[str, float] = field(default_factory=dict)
    """Nats of divergence by origin, and each kind's part of the loss."""

    def add(self, name: str, value: Tensor) -> None:
        """To one of the sums."""
        self.sums[name] = self.sums.get(name, 0.0) + float(value.detach())


class StudentLoss:
    """The loss of a phase.

    Args:
        student: whose weights that move are marked.
        teacher: of the same tokens.
        settings: of the phase.
        matched: needed where `hidden_weight` is not 0.
    """

    def __init__(self, student: Llama, teacher: Teacher, settings: PhaseSettings, matched: Matched) -> None:
        self._student = student
        self._teacher = teacher
        self._settings = settings
        self._matched = matched if settings.hidden_weight else Matched((), ())
        self._measure = MEASURES[settings.divergence](settings.beta)

    def of_line(self, groups: tuple[Group, ...], counts: Counts, seen: Seen) -> Tensor:
        """The groups' part of a step's loss.

        Args:
            groups: by origin (`Origin`).
            counts: of the whole step.
            seen: is told.
        """
        settings, weight = self._settings, self._student.lm_head.weight
        line = Line(groups, weight)
        seen.num_computed += len(line.token_ids)
        scores, theirs = self._teacher.read(line, self._matched.teacher)
        hidden, ours = states_behind(self._student, line, self._matched.student)
        output = held_in(self._student.precision, weight)
        apart = diverge(hidden, output, scores, self._measure).index_select(0, line.rows)
        is_of = by_origin(groups, apart.device)
        for origin, here in is_of.items():
            seen.add(origin, apart[here].sum())
        loss = apart.sum() / counts.num_tokens
        if settings.cross_entropy_weight and is_of[Origin.REFERENCE].any():
            surprise = _surprise(hidden, weight, line, is_of[Origin.REFERENCE]) / counts.num_referenced
            seen.add("cross_entropy", surprise)
            loss = loss + settings.cross_entropy_weight * surprise
        if settings.hidden_weight:
            distance = matching_loss(ours, theirs) * len(line.rows) / counts.num_tokens
            seen.add("hidden", distance)
            loss = loss + settings.hidden_weight * distance
        return loss


def by_origin(groups: Sequence[Group], device: torch.device) -> dict[Origin, Tensor]:
    """Which of the groups' tokens are in answers of each origin: (tokens,), bool."""
    of_tokens = [group.domain for group in groups for credit in group.credits for _ in credit.token_ids]
    return {origin: torch.tensor([each == origin for each in of_tokens], device=device) for origin in Origin}


def _surprise(hidden: Tensor, weight: Tensor, line: Line, is_taught: Tensor) -> Tensor:
    """Σ −ln q over the tokens that are taught."""
    rows, of_tokens = line.rows[is_taught].unique(return_inverse=True)
    logprobs, _ = predict(
        hidden.index_select(0, rows), weight, of_tokens, line.targets[is_taught], line.temperatures[rows]
    )
    return -logprobs.sum()
