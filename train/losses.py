"""The losses of one optimiser step, on tokens laid end to end. Three kinds, each with its own denominator.

Policy gradient, cross-entropy (SFT and setbacks) and divergence from a reference live in one batch; a token may carry
any of them. Every function gives a *sum over its micro-batch divided by a denominator of the whole step* (`Totals`),
so that micro-batches add up to what one large batch would give, whatever their sizes.

Policy gradients, with r = π/μ the ratio of the policy to what sampled, and A the advantage:

=========  =========================================================  ======================================
grpo       min(r·A, clip(r)·A), mean of each rollout, mean of those   arXiv 2402.03300
dr_grpo    the same, sum over rollouts · max_tokens                   arXiv 2503.20783
dapo       the same with a higher upper bound, mean over all tokens   arXiv 2503.14476
gspo       r of the rollout: exp(mean ln r); mean over rollouts       arXiv 2507.18071
cispo      stop_grad(min(r, high))·A·ln π, mean over all tokens       arXiv 2506.13585
=========  =========================================================  ======================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor


class Objective(StrEnum):
    """A policy gradient."""

    GRPO = "grpo"
    DR_GRPO = "dr_grpo"
    DAPO = "dapo"
    GSPO = "gspo"
    CISPO = "cispo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """How far the ratio counts. Equal bounds are PPO's; DAPO's upper one is higher, so that rare tokens can rise."""

    low: float = 0.2
    """The least ratio that counts is 1 − low."""
    high: float = 0.28
    """The greatest is 1 + high; for `cispo`, high itself."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of the whole step, all its micro-batches: what losses are divided by."""

    num_rollouts: int
    """That carry an advantage."""
    num_tokens: int
    """Sampled tokens of those."""
    ce_weight: float
    """Sum of the cross-entropy weights."""
    num_reference_tokens: int
    """Tokens that are held to the reference."""
    max_tokens: int
    """The most that one rollout may sample; `dr_grpo` divides by it."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A micro-batch: sampled tokens of its rollouts, laid end to end. All tensors are (tokens,)."""

    rollout: Tensor
    """int64: which rollout of the micro-batch each token is of, from 0, rising."""
    behavior_logprobs: Tensor
    """What they were drawn at."""
    advantages: Tensor


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """A policy gradient's loss and what it saw on the way."""

    loss: Tensor
    """Scalar."""
    clipped_share: float
    """Of the tokens: those whose gradient the clip took away."""


def rollout_sums(values: Tensor, rollout: Tensor, num_rollouts: int) -> Tensor:
    """Sums of `values` (tokens,) by rollout; (rollouts,)."""
    return values.new_zeros(num_rollouts).index_add(0, rollout, values)


def policy_loss(
    policy_logprobs: Tensor, tokens: Tokens, totals: Totals, objective: Objective, clip: Clip
) -> PolicyLoss:
    """The loss of one micro-batch.

    Args:
        policy_logprobs: (tokens,) of the weights that are trained, with gradient.
        tokens: what was sampled.
        totals: of the whole step.
        objective: which.
        clip: how far a ratio counts.
    """
    num_rollouts = int(tokens.rollout[-1]) + 1 if len(tokens.rollout) else 0
    lengths = rollout_sums(torch.ones_like(policy_logprobs), tokens.rollout, num_rollouts).clamp(min=1.0)
    log_ratio = policy_logprobs - tokens.behavior_logprobs
    if objective is Objective.GSPO:
        mean = rollout_sums(log_ratio, tokens.rollout, num_rollouts) / lengths
        log_ratio = mean[tokens.rollout]
    ratio = log_ratio.exp()
    advantages = tokens.advantages
    if objective is Objective.CISPO:
        weight = ratio.detach().clamp(max=clip.high)
        per_token = -weight * advantages * policy_logprobs
        is_clipped = torch.zeros_like(tokens.rollout, dtype=torch.bool)
    else:
        bounded = ratio.clamp(1 - clip.low, 1 + clip.high)
        per_token = -torch.minimum(ratio * advantages, bounded * advantages)
        is_clipped = (bounded * advantages < ratio * advantages).detach()
    if objective in (Objective.GRPO, Objective.GSPO):
        loss = (per_token / lengths[tokens.rollout]).sum() / max(1, totals.num_rollouts)
    elif objective is Objective.DR_GRPO:
        loss = per_token.sum() / max(1, totals.num_rollouts * totals.max_tokens)
    else:
        loss = per_token.sum() / max(1, totals.num_tokens)
    clipped_share = float(is_clipped.float().mean()) if num_rollouts else 0.0
    return PolicyLoss(loss, clipped_share)


def reference_loss(
    policy_logprobs: Tensor,
    ref_logprobs: Tensor,
    behavior_logprobs: Tensor | None,
    totals: Totals,
) -> Tensor:
    """KL(policy ‖ reference) by Schulman's k3, exp(d) − d − 1 with d = ln ref − ln policy; scalar.

    k3 is unbiased in value for tokens that the policy drew. Its gradient is not that of the divergence, and for tokens
    that an older policy drew neither is right: weighed by the ratio, gradient included, both are (arXiv 2512.02556,
    section 3.1). `behavior_logprobs` None leaves the weight out.
    """
    difference = ref_logprobs - policy_logprobs
    k3 = difference.exp() - difference - 1
    if behavior_logprobs is not None:
        k3 = k3 * (policy_logprobs - behavior_logprobs).exp()
    return k3.sum() / max(1, totals.num_reference_tokens)


def cross_entropy(policy_logprobs: Tensor, weights: Tensor, totals: Totals) -> Tensor:
    """−Σ weight · ln π / Σ weight of the whole step; scalar. Both are (tokens,)."""
    return -(weights * policy_logprobs).sum() / (totals.ce_weight or 1.0)
