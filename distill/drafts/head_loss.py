"""What a head is taught: the target's next-token distribution over the tokens that it can draft, at every depth.

With p the target's distribution over all tokens, p′ the same over those that can be drafted, m their share of p, and q
the head's, a place counts m KL(p′ ‖ q): its slope is that of KL(p ‖ q) wherever the head can say anything. A place
where the target would say something else counts the less, which departs from EAGLE-3: its authors' code leaves out the
places whose likeliest token cannot be drafted. Depths count 0.8^j, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from distill.drafts.head import DraftHead
from distill.drafts.unrolled import ReadText, unroll
from train.model.head import ROWS
from train.model.llama import Llama

DEPTH_DECAY = 0.8


@dataclass(frozen=True, slots=True)
class HeadLoss:
    """Of one batch."""

    total: Tensor
    """Scalar, nats: the mean over depths, weighted, of `by_depth`."""
    by_depth: tuple[float, ...]
    """Mean of m KL(p′ ‖ q) over places; depths that no chain reaches are left out."""
    acceptance: tuple[float, ...]
    """Mean of Σ min(p, q) at temperature 1."""


def head_loss(head: DraftHead, target: Llama, texts: Sequence[ReadText], num_depths: int) -> HeadLoss:
    """The loss of a head on some texts, unrolled to `num_depths`."""
    likely = drafted_likelihoods(head, target, torch.cat([each.hidden for each in texts]))
    losses, acceptance = [], []
    for guesses in unroll(head, target, texts, num_depths):
        if not len(guesses.places):
            break
        p, logprobs = likely[guesses.places], guesses.logits.log_softmax(-1)
        losses.append(place_losses(p, logprobs).mean())
        acceptance.append(float(torch.minimum(p, logprobs.detach().exp()).sum(-1).mean()))
    weights = [DEPTH_DECAY**depth for depth in range(len(losses))]
    total = torch.stack([weight * each for weight, each in zip(weights, losses, strict=True)]).sum()
    by_depth = tuple(float(each.detach()) for each in losses)
    return HeadLoss(total / sum(weights), by_depth, tuple(acceptance))


def place_losses(likely: Tensor, logprobs: Tensor) -> Tensor:
    """m KL(p′ ‖ q) at each place, (R,), at least 0.

    Args:
        likely: (R, D): p of the tokens that can be drafted; sums to m.
        logprobs: (R, D): ln q.
    """
    share = likely.sum(-1)
    return (torch.xlogy(likely, likely) - likely * logprobs).sum(-1) - torch.xlogy(share, share)


@torch.no_grad()
def drafted_likelihoods(head: DraftHead, target: Llama, hidden: Tensor) -> Tensor:
    """(R, D): the target's probabilities of what can be drafted, from its normed states (R, E)."""
    ids = torch.tensor(head.vocabulary.token_ids, device=hidden.device)
    return torch.cat([target.logits(part).softmax(-1)[:, ids] for part in hidden.split(ROWS)])
