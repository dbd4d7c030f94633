"""One optimiser step of a student, or of exits, in lines of a fixed number of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

from distill.rates import warmed_cosine
from distill.recipe import PhaseSettings
from distill.student_loss import Counts, Origin, Seen
from train.batch import Group, micro_batches
from train.model.trainable import moving

BETAS: Final = (0.9, 0.99)
_LOSSES: Final = ("cross_entropy", "hidden")


class Loss(Protocol):
    """What a step goes down on, as a sum over its lines."""

    def of_line(self, groups: tuple[Group, ...], counts: Counts, seen: Seen) -> Tensor:
        """The groups' part of it; `counts` are of the whole step, and `seen` is told."""
        ...


class StudentLearner:
    """Holds the optimiser of a phase.

    Args:
        student: or exits, whose weights that move are marked.
        loss: of the phase.
        settings: of the phase.
        micro_batch_tokens: computed at once.
    """

    def __init__(
        self, student: nn.Module, loss: Loss, settings: PhaseSettings, micro_batch_tokens: int
    ) -> None:
        self.weights = moving(student)
        self.optimizer = torch.optim.AdamW(self.weights.values(), betas=BETAS, weight_decay=0.0)
        self._loss = loss
        self._settings = settings
        self._micro_batch_tokens = micro_batch_tokens

    def step(self, groups: Sequence[Group], number: int) -> dict[str, Any]:
        """Move the weights once, by all of `groups`; the step's metrics.

        Where the gradient is not finite the weights stay as they were, and `is_applied` is false.
        """
        counts, seen = Counts.of(groups), Seen()
        self.optimizer.zero_grad(set_to_none=True)
        for batch in micro_batches(groups, max_tokens=self._micro_batch_tokens):
            torch.autograd.backward(self._loss.of_line(batch, counts, seen))
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), self._settings.max_gradient_norm))
        rate = warmed_cosine(
            number,
            height=self._settings.learning_rate,
            num_warmup_steps=self._settings.num_warmup_steps,
            num_steps=self._settings.num_steps,
        )
        if is_applied := math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {
            **_metrics(groups, counts, seen),
            "is_applied": is_applied,
            "grad_norm": norm,
            "learning_rate": rate,
        }


def _metrics(groups: Sequence[Group], counts: Counts, seen: Seen) -> dict[str, Any]:
    """Divergence is the mean over tokens, nats: of all, of each origin's answers, and of whatever else a loss told."""
    by_origin = {
        origin: sum(len(c.token_ids) for group in groups if group.domain == origin for c in group.credits)
        for origin in Origin
    }
    others = seen.sums.keys() - {*Origin, *_LOSSES}
    nats = {origin: seen.sums.get(origin, 0.0) for origin in Origin}
    return {
        "divergence": sum(nats.values()) / max(1, counts.num_tokens),
        **{f"divergence_{origin}": nats[origin] / num for origin, num in by_origin.items() if num},
        **{f"num_{origin}_tokens": num for origin, num in by_origin.items()},
        **{f"{kind}_loss": seen.sums[kind] for kind in _LOSSES if kind in seen.sums},
        **{f"divergence_{name}": seen.sums[name] / max(1, counts.num_tokens) for name in sorted(others)},
        "num_tokens": counts.num_tokens,
        "num_computed_tokens": seen.num_computed,
    }
