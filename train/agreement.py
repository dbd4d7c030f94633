"""How near one model is to another: what each would say next, all along reference answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from train.model.llama import Llama


@dataclass(frozen=True, slots=True)
class Agreement:
    """Means over the tokens of answers."""

    mean_divergence: float
    """KL(first ‖ second) of the next token, nats."""
    greedy_share: float
    """Of tokens for which both have the same most likely next one."""
    num_tokens: int


@torch.no_grad()
def agreement(
    first: Llama, second: Llama, texts: Iterable[tuple[Sequence[int], Sequence[int]]]
) -> Agreement | None:
    """Compare two models of one vocabulary; None where there are no texts.

    Args:
        first: the one to be near to.
        second: the other.
        texts: prompts and their answers, in tokens.
    """
    divergence, num_alike, num_tokens = 0.0, 0, 0
    for prompt, answer in texts:
        token_ids = torch.tensor([*prompt, *answer])[:-1]
        ours, theirs = (_logprobs(model, token_ids, len(answer)) for model in (first, second))
        divergence += float((ours.exp() * (ours - theirs)).sum())
        num_alike += int((ours.argmax(-1) == theirs.argmax(-1)).sum())
        num_tokens += len(answer)
    if not num_tokens:
        return None
    return Agreement(divergence / num_tokens, num_alike / num_tokens, num_tokens)


def _logprobs(model: Llama, token_ids: Tensor, num_last: int) -> Tensor:
    """(N,) → (num_last, V), of the token that follows each of the last ones."""
    hidden = model(token_ids, torch.arange(len(token_ids)), _causal)
    return model.logits(hidden[-num_last:]).float().log_softmax(-1)


def _causal(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    gathered = functional.scaled_dot_product_attention(
        queries.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1), is_causal=True, enable_gqa=True
    )
    return gathered.transpose(0, 1)
