"""One optimiser step: from groups with credits to moved weights. The story of a step is `Learner.step`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from train.batch import Credit, Group, micro_batches, totals_of
from train.conflict import ConflictProbe
from train.entropy import EntropyBand
from train.losses import Clip, Objective, Tokens, Totals, cross_entropy, policy_loss, reference_loss
from train.sharding import parted_like, whole


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of the tokens behind the prompts, groups and their rollouts end to end; both are (tokens,)."""

    logprobs: Tensor
    entropies: Tensor
    """Of the distribution that each token was drawn from, in nats."""


class TrainedModel(Protocol):
    """A policy with weights that move."""

    def trained(self) -> Mapping[str, Parameter]:
        """The weights that move, by name."""
        ...

    def score(self, groups: Sequence[Group]) -> Scored:
        """Every token behind the prompts, with gradient; each prompt is computed once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """How to step."""

    objective: Objective = Objective.DAPO
    clip: Clip = field(default_factory=Clip)
    learning_rate: float = 1e-5
    num_warmup_steps: int = 5
    num_steps: int = 100
    """Over which a cosine takes the rate to a tenth."""
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    reference_weight: float = 0.0
    """Of the divergence from the reference; 0 computes none."""
    ce_weight: float = 1.0
    max_mean_log_ratio: float = 2.0
    """A rollout whose tokens are further from the policy than that, on average and either way, teaches nothing by
    gradient, as if its advantage were 0; it is counted, for it says that sampler and learner disagree."""
    micro_batch_tokens: int = 2048
    max_tokens: int = 64
    """Of one rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What a step did."""

    is_applied: bool
    """False where the gradient was not finite: the weights stay as they were."""
    losses: Mapping[str, float]
    """By kind, before their weights."""
    grad_norm: float
    learning_rate: float
    entropy: float
    """Mean over the tokens that a policy gradient was taken of; nats."""
    mean_ratio: float
    max_ratio: float
    """Raw, before clips and rejections."""
    clipped_share: float
    num_rejected: int
    num_projected: int
    """Pairs of domains and modules where one gave way (`train.conflict`)."""
    num_tokens: int


class Learner:
    """Holds the optimiser.

    Args:
        model: what learns.
        config: how.
        entropy_band: moves with every step; None leaves entropy alone.
        reference: log-probs, (tokens,), of the same tokens by the reference; needed where `reference_weight` is not 0.
        conflict: sees each domain's gradient and puts them together; None sums them unseen, which is cheaper.
    """

    def __init__(
        self,
        model: TrainedModel,
        config: LearnerConfig,
        *,
        entropy_band: EntropyBand | None = None,
        reference: Callable[[Sequence[Group]], Tensor] | None = None,
        conflict: ConflictProbe | None = None,
    ) -> None:
        if config.reference_weight and reference is None:
            raise ValueError("reference_weight is set, and there is no reference")
        self.model = model
        self.config = config
        self.entropy_band = entropy_band
        self._reference = reference
        self._conflict = conflict
        self.optimizer = torch.optim.AdamW(
            list(model.trained().values()),
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
        )
        self.num_steps_done = 0

    def step(self, groups: Sequence[Group]) -> StepReport:
        """Move the weights once, by all of `groups`."""
        totals = totals_of(groups, max_tokens=self.config.max_tokens)
        self.optimizer.zero_grad(set_to_none=True)
        seen = Sums()
        if self._conflict is None:
            self._accumulate(groups, totals, seen)
        else:
            self._accumulate_apart(self._conflict, groups, totals, seen)
        return self._apply(totals, seen)

    def _accumulate(self, groups: Sequence[Group], totals: Totals, seen: Sums) -> None:
        for batch in micro_batches(groups, max_tokens=self.config.micro_batch_tokens):
            torch.autograd.backward(self._loss(batch, totals, seen))

    def _accumulate_apart(
        self, conflict: ConflictProbe, groups: Sequence[Group], totals: Totals, seen: Sums
    ) -> None:
        """Each domain's gradient by itself, then put together as `conflict` says."""
        gradients = {}
        for domain in sorted({group.domain for group in groups}):
            self._accumulate([group for group in groups if group.domain == domain], totals, seen)
            gradients[domain] = {
                name: whole(weight.grad)
                for name, weight in self.model.trained().items()
                if weight.grad is not None
            }
            self.optimizer.zero_grad(set_to_none=True)
        combined = conflict.combine(self.num_steps_done, {d: g for d, g in gradients.items() if g})
        for name, weight in self.model.trained().items():
            gradient = combined.gradient.get(name)
            weight.grad = None if gradient is None else parted_like(gradient, weight)
        seen.num_projected = combined.num_projected

    def _loss(self, batch: Sequence[Group], totals: Totals, seen: Sums) -> Tensor:
        scored = self.model.score(batch)
        credits = [credit for group in batch for credit in group.credits]
        laid = _laid(credits, scored.logprobs)
        is_rejected = _far(scored.logprobs.detach(), laid, self.config.max_mean_log_ratio)
        seen.ratios(scored.logprobs.detach() - laid.tokens.behavior_logprobs, laid.tokens.advantages != 0)
        advantages = laid.tokens.advantages.masked_fill(is_rejected[laid.tokens.rollout], 0.0)
        is_learned = laid.is_sampled & (advantages != 0)
        policy, loss = scored.logprobs[is_learned], 0.0 * scored.logprobs.sum()
        tokens = Tokens(
            laid.tokens.rollout[is_learned], laid.tokens.behavior_logprobs[is_learned], advantages[is_learned]
        )
        if len(policy):
            found = policy_loss(policy, tokens, totals, self.config.objective, self.config.clip)
            loss = loss + found.loss
            seen.add("policy", found.loss)
            seen.clipped += found.clipped_share * len(policy)
            entropies = scored.entropies[is_learned]
            seen.entropy(entropies)
            if self.entropy_band is not None and self.entropy_band.coefficient:
                loss = loss - self.entropy_band.coefficient * entropies.sum() / max(1, totals.num_tokens)
            if self.config.reference_weight and self._reference is not None:
                ref = self._reference(batch)[is_learned]
                divergence = reference_loss(policy, ref, tokens.behavior_logprobs, totals)
                loss = loss + self.config.reference_weight * divergence
                seen.add("reference", divergence)
        if totals.ce_weight:
            surprise = cross_entropy(scored.logprobs, laid.ce_weights, totals)
            loss = loss + self.config.ce_weight * surprise
            seen.add("cross_entropy", surprise)
        seen.num_rejected += int(is_rejected.sum())
        return loss

    def _apply(self, totals: Totals, seen: Sums) -> StepReport:
        weights = [weight for weight in self.model.trained().values() if weight.grad is not None]
        norm = (
            float(whole(torch.nn.utils.clip_grad_norm_(weights, self.config.max_grad_norm)))
            if weights
            else 0.0
        )
        rate = self.learning_rate()
        is_applied = math.isfinite(norm) and all(map(math.isfinite, seen.losses.values()))
        if is_applied:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.num_steps_done += 1
            if self.entropy_band is not None and seen.num_entropies:
                self.entropy_band.observe(seen.mean_entropy)
        self.optimizer.zero_grad(set_to_none=True)
        return StepReport(
            is_applied=is_applied,
            losses=dict(seen.losses),
            grad_norm=norm,
            learning_rate=rate,
            entropy=seen.mean_entropy,
            mean_ratio=seen.ratio_sum / max(1, seen.num_ratios),
            max_ratio=seen.max_ratio,
            clipped_share=seen.clipped / max(1, seen.num_entropies),
            num_rejected=seen.num_rejected,
            num_projected=seen.num_projected,
            num_tokens=totals.num_tokens,
        )

    def learning_rate(self) -> float:
        """Of the next step: a linear start, then a cosine down to a tenth."""
        config, done = self.config, self.num_steps_done
        if done < config.num_warmup_steps:
            return config.learning_rate * (done + 1) / config.num_warmup_steps
        span = max(1, config.num_steps - config.num_warmup_steps)
        progress = min(1.0, (done - config.num_warmup_steps) / span)
        return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


@dataclass(frozen=True, slots=True)
class _Laid:
    tokens: Tokens
    is_sampled: Tensor
    ce_weights: Tensor


def _laid(credits: Sequence[Credit], like: Tensor) -> _Laid:
    def floats(of_credit: Callable[[Credit], Iterable[float]]) -> Tensor:
        return like.new_tensor(list(chain.from_iterable(map(of_credit, credits))))

    lengths = torch.tensor([len(credit.token_ids) for credit in credits])
    rollout = torch.repeat_interleave(torch.arange(len(lengths)), lengths).to(like.device)
    behavior_logprobs = floats(lambda credit: credit.behavior_logprobs)
    tokens = Tokens(rollout, behavior_logprobs, floats(lambda credit: credit.advantages))
    is_sampled = floats(lambda credit: credit.is_sampled).bool()
    return _Laid(tokens, is_sampled, floats(lambda credit: credit.ce_weights))


def _far(logprobs: Tensor, laid: _Laid, most: float) -> Tensor:
    """Which rollouts the policy would sample very differently now; (rollouts,)."""
    num = int(laid.tokens.rollout[-1]) + 1 if len(laid.tokens.rollout) else 0
    apart = (logprobs - laid.tokens.behavior_logprobs).abs() * laid.is_sampled
    sums = apart.new_zeros(num).index_add(0, laid.tokens.rollout, apart)
    lengths = apart.new_zeros(num).index_add(0, laid.tokens.rollout, laid.is_sampled.to(apart.dtype))
    return sums > most * lengths.clamp(min=1)


class Sums:
    """What is seen over the micro-batches of a step."""

    def __init__(self) -> None:
        self.losses: dict[str, float] = {}
        self.ratio_sum = self.max_ratio = self.clipped = self.entropy_sum = 0.0
        self.num_ratios = self.num_entropies = self.num_rejected = self.num_projected = 0

    def add(self, kind: str, loss: Tensor) -> None:
        """A micro-batch's loss of a kind."""
        self.losses[kind] = self.losses.get(kind, 0.0) + float(loss.detach())

    def ratios(self, log_ratio: Tensor, counts: Tensor) -> None:
        """Of tokens, those that count."""
        ratio = log_ratio[counts].exp()
        if len(ratio):
            self.ratio_sum += float(ratio.sum())
            self.max_ratio = max(self.max_ratio, float(ratio.max()))
            self.num_ratios += len(ratio)

    def entropy(self, entropies: Tensor) -> None:
        """Of tokens."""
        self.entropy_sum += float(entropies.detach().sum())
        self.num_entropies += len(entropies)

    def merge(self, other: Sums) -> None:
        """Take in what was seen elsewhere."""
        for kind, value in other.losses.items():
            self.losses[kind] = self.losses.get(kind, 0.0) + value
        self.ratio_sum += other.ratio_sum
        self.max_ratio = max(self.max_ratio, other.max_ratio)
        self.clipped += other.clipped
        self.entropy_sum += other.entropy_sum
        self.num_ratios += other.num_ratios
        self.num_entropies += other.num_entropies
        self.num_rejected += other.num_rejected

    @property
    def mean_entropy(self) -> float:
        """Over all tokens; nats."""
        return self.entropy_sum / max(1, self.num_entropies)
