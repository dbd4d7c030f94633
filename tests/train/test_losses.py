"""Losses: worked by hand in float64, the same as TRL's, and the same however a step is cut into micro-batches."""

from __future__ import annotations

from collections import defaultdict
from math import log
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from train.losses import Clip, Objective, Tokens, Totals, cross_entropy, policy_loss, reference_loss

CLIP = Clip(low=0.2, high=0.28)
LENGTHS = (3, 1, 4, 2)
MAX_TOKENS = 8


def totals(num_rollouts: int = len(LENGTHS), num_tokens: int = sum(LENGTHS)) -> Totals:
    return Totals(num_rollouts, num_tokens, 1.0, num_tokens, MAX_TOKENS)


def drawn(seed: int = 0) -> tuple[Tensor, Tokens, Tensor]:
    """Policy log-probs, the tokens of four rollouts, and reference log-probs; ratios well beyond the clip."""
    generator = torch.Generator().manual_seed(seed)
    num = sum(LENGTHS)
    behavior = -torch.rand(num, generator=generator, dtype=torch.float64) * 3
    policy = behavior + 0.4 * torch.randn(num, generator=generator, dtype=torch.float64)
    ref = behavior + 0.4 * torch.randn(num, generator=generator, dtype=torch.float64)
    rollout = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    advantages = torch.tensor([1.5, -0.5, 0.25, -1.25], dtype=torch.float64)[rollout]
    return policy.requires_grad_(), Tokens(rollout, behavior, advantages), ref


def part(tokens: Tokens, policy: Tensor, rollouts: tuple[int, int]) -> tuple[Tensor, Tokens]:
    """The micro-batch of rollouts `rollouts[0]` up to before `rollouts[1]`."""
    inside = (tokens.rollout >= rollouts[0]) & (tokens.rollout < rollouts[1])
    cut = Tokens(
        tokens.rollout[inside] - rollouts[0], tokens.behavior_logprobs[inside], tokens.advantages[inside]
    )
    return policy[inside], cut


def test_grpo_by_hand() -> None:
    """Two rollouts of two and one tokens: min(r·A, clip(r)·A), the mean of each, the mean of those."""
    behavior = torch.tensor([log(0.5), log(0.25), log(0.4)], dtype=torch.float64)
    policy = torch.tensor([log(0.55), log(0.375), log(0.2)], dtype=torch.float64)
    advantages = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    tokens = Tokens(torch.tensor([0, 0, 1]), behavior, advantages)
    found = policy_loss(policy, tokens, totals(2, 3), Objective.GRPO, CLIP)
    # Ratios 1.1, 1.5 (clipped to 1.28 for a gain), 0.5 (clipped to 0.8 for a loss: −0.8 is the lesser of −0.5, −0.8).
    assert found.loss.item() == pytest.approx(-((1.1 + 1.28) / 2 + -0.8) / 2, rel=1e-12)
    assert found.clipped_share == pytest.approx(2 / 3)


def test_gspo_by_hand() -> None:
    """The ratio is of the rollout: the geometric mean of its tokens' ratios."""
    behavior = torch.zeros(2, dtype=torch.float64)
    policy = torch.tensor([log(1.21), 0.0], dtype=torch.float64)
    tokens = Tokens(torch.tensor([0, 0]), behavior, torch.full((2,), 2.0, dtype=torch.float64))
    found = policy_loss(policy, tokens, totals(1, 2), Objective.GSPO, CLIP)
    assert found.loss.item() == pytest.approx(-2 * 1.1, rel=1e-12)


def test_cispo_keeps_every_gradient() -> None:
    """A ratio beyond the bound is cut, and its token is still learned from."""
    policy = torch.tensor([log(3.0)], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, dtype=torch.float64)
    tokens = Tokens(torch.tensor([0]), 0 * one, one)
    clip = Clip(high=2.0)
    policy_loss(policy, tokens, totals(1, 1), Objective.CISPO, clip).loss.backward()
    assert policy.grad is not None
    assert policy.grad.item() == pytest.approx(-2.0)


@pytest.mark.parametrize("objective", list(Objective))
def test_micro_batches_add_up(objective: Objective) -> None:
    """A step cut into micro-batches of unequal lengths has the loss and the gradient of the whole."""
    policy, tokens, _ = drawn()
    (whole,) = torch.autograd.grad(
        policy_loss(policy, tokens, totals(), objective, CLIP).loss, policy, retain_graph=True
    )
    summed = torch.zeros_like(policy)
    for rollouts in ((0, 1), (1, 3), (3, 4)):
        loss = policy_loss(*part(tokens, policy, rollouts), totals(), objective, CLIP).loss
        summed += torch.autograd.grad(loss, policy)[0]
    assert torch.allclose(summed, whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("objective", list(Objective))
def test_first_update_is_plain_policy_gradient(objective: Objective) -> None:
    """Where the policy is what sampled, all objectives push along A·∇ln π and differ by denominators alone."""
    _, tokens, _ = drawn()
    policy = tokens.behavior_logprobs.clone().requires_grad_()
    policy_loss(policy, tokens, totals(), objective, Clip(low=0.2, high=1.28)).loss.backward()
    assert policy.grad is not None
    denominator = {
        Objective.GRPO: torch.tensor(LENGTHS)[tokens.rollout] * len(LENGTHS),
        Objective.GSPO: torch.tensor(LENGTHS)[tokens.rollout] * len(LENGTHS),
        Objective.DR_GRPO: len(LENGTHS) * MAX_TOKENS,
    }.get(objective, sum(LENGTHS))
    assert torch.allclose(policy.grad, -tokens.advantages / denominator)


def test_reference_divergence_by_hand() -> None:
    """k3 is exp(d) − d − 1, and nothing where policy and reference agree."""
    policy = torch.tensor([log(0.5), log(0.3)], dtype=torch.float64)
    ref = torch.tensor([log(0.25), log(0.3)], dtype=torch.float64)
    found = reference_loss(policy, ref, None, totals(1, 2))
    assert float(found) == pytest.approx((0.5 + log(2) - 1) / 2, rel=1e-12)


def test_reference_gradient_is_unbiased() -> None:
    """Over all tokens by their chance, the weighed k3 has the gradient of the divergence; unweighed it has not."""
    logits = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64, requires_grad=True)
    ref = torch.log_softmax(torch.tensor([-0.5, 0.4, 0.2], dtype=torch.float64), 0)
    policy = torch.log_softmax(logits, 0)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - ref)).sum(), logits, retain_graph=True)

    def expected(behavior: Tensor | None) -> Tensor:
        total = torch.zeros_like(logits)
        for token in range(3):
            one = slice(token, token + 1)
            loss = reference_loss(
                policy[one], ref[one], None if behavior is None else behavior[one], totals(1, 1)
            )
            chance = float((policy if behavior is None else behavior)[token].detach().exp())
            total += chance * torch.autograd.grad(loss, logits, retain_graph=True)[0]
        return total

    older = torch.log_softmax(torch.tensor([0.0, 0.5, 0.1], dtype=torch.float64), 0)
    assert torch.allclose(expected(policy.detach()), exact)
    assert torch.allclose(expected(older), exact)
    assert not torch.allclose(expected(None), exact, rtol=0.05)


def test_cross_entropy_by_hand() -> None:
    """A weighed mean of surprise; a token of no weight says nothing."""
    policy = torch.tensor([log(0.5), log(0.1), log(0.25)], dtype=torch.float64)
    weights = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    found = cross_entropy(policy, weights, Totals(0, 0, 4.0, 0, 1))
    assert float(found) == pytest.approx((log(2) + 3 * log(4)) / 4, rel=1e-12)


@pytest.mark.parametrize("objective", list(Objective))
def test_same_as_trl(objective: Objective) -> None:
    """TRL's loss of the same tokens, and its gradient, to 1e-5."""
    policy, tokens, ref = drawn(seed=3)
    clip = Clip(low=0.2, high=1.5) if objective is Objective.CISPO else CLIP
    ours = policy_loss(policy, tokens, totals(), objective, clip).loss
    (gradient,) = torch.autograd.grad(ours, policy, retain_graph=True)
    theirs = trl_loss(policy, tokens, ref, objective, clip, beta=0.0)
    (their_gradient,) = torch.autograd.grad(theirs, policy)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    assert torch.allclose(gradient, their_gradient, atol=1e-5)


def test_divergence_same_as_trl() -> None:
    """TRL adds its corrected k3 to the objective, by tokens; the difference it makes is ours."""
    policy, tokens, ref = drawn(seed=4)
    ours = reference_loss(policy, ref, tokens.behavior_logprobs, totals())
    both = [trl_loss(policy, tokens, ref, Objective.DAPO, CLIP, beta=beta) for beta in (1.0, 0.0)]
    assert ours.item() == pytest.approx((both[0] - both[1]).item(), abs=1e-5)


def trl_loss(
    policy: Tensor, tokens: Tokens, ref: Tensor, objective: Objective, clip: Clip, *, beta: float
) -> Tensor:
    """What `GRPOTrainer._compute_loss` makes of these log-probs."""
    grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer")

    def padded(values: Tensor) -> Tensor:
        rows = [values[tokens.rollout == each] for each in range(len(LENGTHS))]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    mask = padded(torch.ones(sum(LENGTHS), dtype=torch.int64))
    is_gspo = objective is Objective.GSPO
    trainer: Any = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            padded(policy),
            padded(0 * policy.detach()),
            None,
        ),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="sequence" if is_gspo else "token",
        loss_type="grpo" if is_gspo else objective.value,
        beta=beta,
        epsilon_low=clip.low,
        epsilon_high=clip.high,
        args=SimpleNamespace(use_bias_correction_kl=True, delta=None, steps_per_generation=1),
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=MAX_TOKENS,
        _entropy_bonus_enabled=False,
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda value: value, reduce=lambda value, reduction: value
        ),
        _metrics={"train": defaultdict(list)},
        model=SimpleNamespace(training=True),
    )
    inputs = {
        "prompt_ids": torch.zeros(len(LENGTHS), 1, dtype=torch.int64),
        "prompt_mask": torch.ones(len(LENGTHS), 1, dtype=torch.int64),
        "completion_ids": mask,
        "completion_mask": mask,
        "advantages": padded(tokens.advantages),
        "old_per_token_logps": padded(tokens.behavior_logprobs),
        "ref_per_token_logps": padded(ref),
        "num_items_in_batch": mask.sum(),
    }
    loss: Tensor = grpo_trainer.GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    return loss
