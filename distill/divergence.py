"""How far a student's next-token distribution is from its teacher's, at each place, with gradient to the student.

Logits are the largest thing in a step. Here those of student and teacher exist for `ROWS` places at a time, forward and
backward: what is kept between the two is the states they are computed from.

With p the teacher's distribution, q = softmax z the student's:

- forward  KL(p ‖ q) = Σ p (ln p − ln q)
- reverse  KL(q ‖ p) = Σ q (ln q − ln p)
- JSD(β)   β KL(p ‖ m) + (1 − β) KL(q ‖ m), m = β p + (1 − β) q (arXiv:2306.13649, equation 1)
- total variation ½ Σ |p − q|

Each is a function of ln q; with g its slope there, its slope in the logits is ∂D / ∂z = g − q Σ g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

ROWS = 128
"""Places whose logits are in work at once."""

Measure = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From (rows, V) log-probabilities, student's first: (rows,) nats, and their slope in the student's, (rows, V)."""


def forward_kl(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """KL(p ‖ q): the student is to cover what the teacher may say."""
    likely = teacher.exp()
    return torch.linalg.vecdot(likely, teacher - student), -likely


def reverse_kl(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q ‖ p): the student is to say nothing that the teacher would not."""
    likely, apart = student.exp(), student - teacher
    return torch.linalg.vecdot(likely, apart), likely * (apart + 1)


def jsd(beta: float) -> Measure:
    """The generalised JSD(β), `beta` in (0, 1): near 0 like β forward, near 1 like (1 − β) reverse divergence.

    Raises:
        ValueError: at 0 and 1 it is 0 whatever is said; take `forward_kl` or `reverse_kl`.
    """
    if not 0 < beta < 1:
        raise ValueError(
            f"beta is {beta}; it lies between 0 and 1, whose limits are forward_kl and reverse_kl"
        )

    def measure(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        mixed = torch.logaddexp(teacher + math.log(beta), student + math.log1p(-beta))
        slope = (1 - beta) * student.exp() * (student - mixed)
        return beta * torch.linalg.vecdot(teacher.exp(), teacher - mixed) + slope.sum(-1), slope

    return measure


def total_variation(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """½ Σ |p − q|: the chance that speculative decoding refuses a token of the student's (arXiv:2211.17192, 3.2)."""
    likely = student.exp()
    apart = likely - teacher.exp()
    return apart.abs().sum(-1) / 2, apart.sign() * likely / 2


class TeacherScores(Protocol):
    """What a teacher says at some places, read a few places at a time."""

    def compare(self, measure: Measure, student: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Measure (rows, V) log-probabilities of the student's, the first at place `start`; as `Measure` returns."""
        ...


@dataclass(frozen=True, slots=True)
class WholeScores:
    """All that a teacher in process says."""

    hidden: Tensor
    """(places, E'), normed; E' need not be the student's."""
    weight: Tensor
    """(V, E'), of the output."""

    @torch.no_grad()
    def compare(self, measure: Measure, student: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """As the protocol says."""
        teacher = _logprobs(self.hidden[start : start + len(student)], self.weight).to(student.dtype)
        return measure(student, teacher)


@dataclass(frozen=True, slots=True)
class TopScores:
    """What an engine tells: its k most likely tokens. All others are one bucket, of the student's too.

    No measure here is larger on merged buckets than on the whole, so the value is a lower bound.
    """

    token_ids: Tensor
    """(places, k), distinct within a place."""
    logprobs: Tensor
    """(places, k), at temperature 1."""

    @torch.no_grad()
    def compare(self, measure: Measure, student: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """As the protocol says."""
        here = slice(start, start + len(student))
        ids, told = self.token_ids[here], self.logprobs[here].to(student.dtype)
        # what is left may be rounded away; a bucket of 0 would be infinitely far
        tail = (1 - told.exp().sum(-1, keepdim=True)).clamp_min(torch.finfo(student.dtype).eps).log()
        others = student.scatter(-1, ids, -math.inf)
        of_others = others.logsumexp(-1, keepdim=True)
        values, slope = measure(
            torch.cat((student.gather(-1, ids), of_others), -1), torch.cat((told, tail), -1)
        )
        # a bucket's log-probability moves with each of its tokens by that token's share of it
        spread = (others - of_others).exp_().mul_(slope[:, -1:])
        return values, spread.scatter_(-1, ids, slope[:, :-1])


def diverge(hidden: Tensor, weight: Tensor, scores: TeacherScores, measure: Measure) -> Tensor:
    """The measure at each place, (places,), nats; differentiable once, in the student's states and output matrix.

    Args:
        hidden: (places, E) of the student, normed.
        weight: (V, E), of the student's output; products with it are computed in its precision, the rest in that of
            the states.
        scores: the teacher's, at the same places over the same vocabulary.
        measure: what is measured.
    """
    values: Tensor = _Diverge.apply(hidden, weight, scores, measure)
    return values


class _Diverge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, scores: TeacherScores, measure: Measure) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        ctx.scores, ctx.measure = scores, measure
        values = hidden.new_empty(len(hidden))
        for start in range(0, len(hidden), ROWS):
            here = slice(start, start + ROWS)
            values[here] = scores.compare(measure, _logprobs(hidden[here], weight), start)[0]
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_values: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        of_hidden = torch.empty_like(hidden) if wants_hidden else None
        of_weight = torch.zeros_like(weight, dtype=hidden.dtype) if wants_weight else None
        for start in range(0, len(hidden), ROWS):
            here = slice(start, start + ROWS)
            student = _logprobs(hidden[here], weight)
            slope = ctx.scores.compare(ctx.measure, student, start)[1]
            of_logits = slope - student.exp_() * slope.sum(-1, keepdim=True)
            of_logits = (of_logits * of_values[here, None]).to(weight.dtype)
            if of_hidden is not None:
                of_hidden[here] = of_logits @ weight
            if of_weight is not None:
                of_weight += of_logits.T @ hidden[here].to(weight.dtype)
        return of_hidden, of_weight, None, None


def _logprobs(hidden: Tensor, weight: Tensor) -> Tensor:
    """In the states' precision, of products in the weight's."""
    logits = (hidden.to(weight.dtype) @ weight.T).to(hidden.dtype)
    return logits.sub_(logits.logsumexp(-1, keepdim=True))
