"""What a model says of given tokens: their log-probabilities, and the entropy at each place; with gradient.

Logits are the largest thing in a step: 49,152 of them at each place are 200 kB in single precision. Here they are made
once, turned into log-probabilities where they lie, and kept for the backward pass while they fit; beyond that they are
computed again. A place that several tokens follow, as a prompt's last does, is computed once.

With z the logits, p = softmax z and H = −Σ p ln p: ∂ ln p_t / ∂z = e_t − p, and ∂H / ∂z = −p (ln p + H).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 128
"""Places whose logits are in work at once."""
MAX_KEPT_BYTES = 256 << 20
"""Of one call's log-probabilities: 1,365 places of 49,152 in single precision. More are computed again."""


def predict(
    hidden: Tensor, weight: Tensor, rows: Tensor, targets: Tensor, temperatures: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities (tokens,) and entropies (rows,), in nats.

    Args:
        hidden: (rows, E), normed.
        weight: (V, E), of the output.
        rows: (tokens,): at which place each token is predicted.
        targets: (tokens,): which one it is.
        temperatures: (rows,).
    """
    logprobs, entropies = _Predict.apply(hidden, weight, rows, targets, temperatures.to(hidden.dtype))
    return logprobs, entropies


class _Predict(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, rows: Tensor, targets: Tensor, temperatures: Tensor
    ) -> tuple[Tensor, Tensor]:
        scaled = hidden / temperatures[:, None]
        is_kept = len(hidden) * len(weight) * hidden.element_size() <= MAX_KEPT_BYTES
        chosen, entropies, kept = hidden.new_empty(len(rows)), hidden.new_empty(len(hidden)), []
        for start, part in _parts(scaled):
            logprobs = _logprobs(part, weight)
            is_here = _is_in(rows, start, part)
            chosen[is_here] = logprobs[rows[is_here] - start, targets[is_here]]
            entropies[start : start + len(part)] = -torch.linalg.vecdot(logprobs.exp(), logprobs)
            if is_kept:
                kept.append(logprobs)
        ctx.save_for_backward(scaled, weight, rows, targets, temperatures, entropies, *kept)
        ctx.set_materialize_grads(False)
        return chosen, entropies

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, of_chosen: Tensor | None, of_entropies: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        scaled, weight, rows, targets, temperatures, entropies, *kept = ctx.saved_tensors
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        if of_chosen is None:
            of_chosen = torch.zeros_like(targets, dtype=scaled.dtype)
        sums = torch.zeros_like(entropies).index_add_(0, rows, of_chosen)
        of_scaled = torch.empty_like(scaled) if wants_hidden else None
        of_weight = torch.zeros_like(weight) if wants_weight else None
        for index, (start, part) in enumerate(_parts(scaled)):
            here = slice(start, start + len(part))
            logprobs = kept[index] if kept else _logprobs(part, weight)
            of_logits = logprobs.exp()
            if of_entropies is None:
                of_logits *= -sums[here, None]
            else:
                tilt = of_entropies[here, None] * (logprobs + entropies[here, None])
                of_logits *= -(sums[here, None] + tilt)
            is_here = _is_in(rows, start, part)
            places = (rows[is_here] - start) * len(weight) + targets[is_here]
            of_logits.view(-1).index_add_(0, places, of_chosen[is_here])
            if of_scaled is not None:
                of_scaled[here] = of_logits @ weight
            if of_weight is not None:
                of_weight.addmm_(of_logits.T, part)
        of_hidden = None if of_scaled is None else of_scaled / temperatures[:, None]
        return of_hidden, of_weight, None, None, None


def _parts(scaled: Tensor) -> list[tuple[int, Tensor]]:
    return list(zip(range(0, len(scaled), ROWS), scaled.split(ROWS), strict=False))


def _is_in(rows: Tensor, start: int, part: Tensor) -> Tensor:
    return (rows >= start) & (rows < start + len(part))


def _logprobs(scaled: Tensor, weight: Tensor) -> Tensor:
    logits = scaled @ weight.T
    return logits.sub_(logits.logsumexp(-1, keepdim=True))
