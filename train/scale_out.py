"""A run over several processes of `accelerate launch`: its learner (DDP, or FSDP2), sampler, judges and critic.

Every process goes through the trainer's whole story with parts that share the work out: rollouts, verdicts and states
are computed each in one process and known to all; of a step's groups each learns its share. The denominators of a step
are those of the whole step and need no exchange. Processes go through as many micro-batches as the one with the most;
who has fewer computes a small one that counts nothing, for a gradient is exchanged in every backward pass. A step is
that of one process but for the order of its sums.

Under FSDP2 the learner's own copy of the weights that move is sharded, a unit for each layer, and so are its gradients
and moments. The model that samples, and the reference, are whole everywhere.

    ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 -m tierwise train run r0 --out runs/r0
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from train.appraisal import is_appraised
from train.batch import Group, micro_batches
from train.critic import Critic
from train.domains.base import Item, Verdict
from train.learner import Learner, LearnerConfig, StepReport, Sums
from train.losses import Totals
from train.model.policy import LlamaPolicy, Scorer
from train.parts import LearningModel, Parts, UpdatedSampler
from train.processes import Processes, TogetherError
from train.recipe import Recipe
from train.rollouts.rollout import Sampler, SampleRequest, Sampling, Span, StopReason
from train.transcript import Transcript
from train.verifiers.pool import Judge


class Wrapping(StrEnum):
    """How a policy is spread over processes."""

    DDP = "ddp"
    """Each has all weights; gradients are averaged."""
    FSDP2 = "fsdp2"
    """Each has a part of every weight that moves, of its gradient, and of its moments."""


def spread_out(parts: Parts, recipe: Recipe, processes: Processes, wrapping: Wrapping) -> Parts:
    """The same parts, their work shared among the processes; as they are where this one is alone.

    Args:
        parts: of this process, put together from the recipe in all of them; no optimiser is made yet.
        recipe: of the run.
        processes: which take part.
        wrapping: how the policy is spread.

    Raises:
        TogetherError: the recipe cannot be run by several processes.
    """
    if processes.num == 1:
        return parts
    if recipe.rl.rollouts_url is not None:
        raise TogetherError(
            "rl.rollouts_url is set, and each process would push its weights to that server; run it in one process, "
            "or leave rl.rollouts_url out so that each process samples its share"
        )
    if recipe.device != "cpu":
        raise TogetherError(
            f"several processes compute on the CPU, and device is {recipe.device!r}; run it in one process, or set "
            "device to 'cpu'"
        )
    if not isinstance(parts.model, LlamaPolicy):
        raise TogetherError(
            f"only a LlamaPolicy is spread over processes, and this is a {type(parts.model).__name__}"
        )
    wrap(parts.model, processes, wrapping)
    make_evaluator = parts.make_evaluator
    return replace(
        parts,
        sampler=ShardedUpdatedSampler(parts.sampler, processes),
        pool=ShardedJudge(parts.pool, processes),
        make_learner=partial(ShardedLearner, processes=processes),
        make_critic=partial(ShardedCritic, processes=processes),
        make_evaluator=make_evaluator and (lambda: ShardedSampler(make_evaluator(), processes)),
    )


def wrap(policy: LlamaPolicy, processes: Processes, wrapping: Wrapping) -> None:
    """Spread a policy, before an optimiser is made of its weights."""
    if wrapping is Wrapping.DDP:
        policy.call_through(DistributedDataParallel(policy.scorer))
    else:
        learning = policy.twin()
        policy.call_through(_sharded(learning, processes.num), learning)


def _sharded(scorer: Scorer, num_processes: int) -> torch.nn.Module:
    mesh = init_device_mesh(next(scorer.parameters()).device.type, (num_processes,))
    frozen = {weight for weight in scorer.parameters() if not weight.requires_grad}
    for layer in scorer.model.model.layers[scorer.first_trained :]:
        fully_shard(layer, mesh=mesh, ignored_params=frozen)
    fully_shard(scorer, mesh=mesh, ignored_params=frozen)
    return scorer


class ShardedLearner(Learner):
    """A learner whose steps are shared out; all processes give it the same groups and get the same report.

    Args:
        model: wrapped by `wrap`.
        config: how.
        processes: which take part.
        others: as `Learner`.
    """

    def __init__(
        self, model: LearningModel, config: LearnerConfig, *, processes: Processes, **others: Any
    ) -> None:
        super().__init__(model, config, **others)
        self._processes = processes
        self._refresh = model.refresh

    def step(self, groups: Sequence[Group]) -> StepReport:
        """As `Learner`; what samples has the new weights then."""
        report = super().step(groups)
        self._refresh()
        return report

    def _accumulate(self, groups: Sequence[Group], totals: Totals, seen: Sums) -> None:
        processes, most = self._processes, self.config.micro_batch_tokens
        shares = [
            list(micro_batches(processes.share(groups, rank), max_tokens=most))
            for rank in range(processes.num)
        ]
        mine, local = shares[processes.rank], Sums()
        filling = min(
            (batch for share in shares for batch in share),
            key=lambda b: sum(g.num_computed for g in b),
            default=(),
        )
        for turn in range(max(map(len, shares))):
            if turn < len(mine):
                loss = self._loss(mine[turn], totals, local)
            else:
                loss = 0.0 * self.model.score(filling).logprobs.sum()
            torch.autograd.backward(loss * processes.num)  # the exchange takes the mean
        for other in processes.gathered(local, "micro-batches"):
            seen.merge(other)


class ShardedCritic(Critic):
    """A critic whose states are shared out. Each process then has all of them, and the same head learns the same.

    Args:
        model: as `Critic`.
        processes: which take part.
        others: as `Critic`.
    """

    def __init__(self, *model_and_settings: Any, processes: Processes, **others: Any) -> None:
        super().__init__(*model_and_settings, **others)
        self._processes = processes

    def _hidden(self, groups: Sequence[Group]) -> Tensor:
        return torch.cat(
            [each for each in self._processes.spread(groups, self._by_group, "states") if len(each)]
        )

    def _by_group(self, groups: Sequence[Group]) -> list[Tensor]:
        """Of each group, (tokens, E); none of one in which nothing is appraised."""
        sizes = [
            sum(credit.rollout.num_sampled for credit in group.credits if is_appraised(credit))
            for group in groups
        ]
        if not sum(sizes):
            return [torch.empty(0, self._model.hidden_size)] * len(sizes)
        return list(super()._hidden(groups).split(sizes))


class ShardedSampler:
    """A sampler whose requests are shared out; every process gets all answers.

    Args:
        sampler: of this process.
        processes: which take part.
    """

    def __init__(self, sampler: Sampler, processes: Processes) -> None:
        self._sampler = sampler
        self._processes = processes

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        return self._sampler.policy_version

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        """As `rollouts.Sampler`.

        Raises:
            ApartError: processes ask for different things.
        """
        asked = hashlib.sha256(repr((requests, sampling)).encode()).hexdigest()[:12]
        return self._processes.spread(
            requests, lambda mine: self._sampler.sample(mine, sampling), f"answers to {asked}"
        )


class ShardedUpdatedSampler(ShardedSampler):
    """The same of a sampler that is told of new weights, in every process.

    Args:
        sampler: of this process.
        processes: which take part.
    """

    def __init__(self, sampler: UpdatedSampler, processes: Processes) -> None:
        super().__init__(sampler, processes)
        self._updated = sampler

    def update(self, policy_version: int) -> None:
        """As `parts.UpdatedSampler`."""
        self._updated.update(policy_version)


class ShardedJudge:
    """Judges that share out what they are asked; every process gets all verdicts.

    Args:
        judge: of this process.
        processes: which take part.
    """

    def __init__(self, judge: Judge, processes: Processes) -> None:
        self._judge = judge
        self._processes = processes

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        """As `verifiers.Judge`."""
        return self._processes.spread(list(pairs), self._judge.verify_all, "verdicts")
