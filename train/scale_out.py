"""The learner and the sampler over several processes of `accelerate launch`: DDP, or FSDP2.

Every process is given the same groups and takes its share of them, so the denominators of a step are those of the whole
step and need no exchange. Processes go through as many micro-batches as the one with the most; who has fewer computes a
small one that counts nothing, for a gradient is exchanged in every backward pass. The step is that of one process but
for the order of its sums.

Under FSDP2 only weights that move are sharded, a unit for each layer; frozen ones are whole everywhere.

    accelerate launch --multi_gpu --num_processes 2 my_run.py     # ACCELERATE_USE_CPU=true without GPUs: gloo, no MPI
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from train.batch import Group, micro_batches
from train.learner import Learner, LearnerConfig, Sums
from train.losses import Totals
from train.model.policy import LlamaPolicy, Scorer
from train.rollouts.rollout import Sampler, SampleRequest, Sampling, Span, StopReason

T = TypeVar("T")


class Wrapping(StrEnum):
    """How a policy is spread over processes."""

    DDP = "ddp"
    """Each has all weights; gradients are averaged."""
    FSDP2 = "fsdp2"
    """Each has a part of every weight that moves, of its gradient, and of its moments."""


class Processes:
    """This process among those that were launched together.

    Args:
        accelerator: of this process; it has set the process group up.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.rank: int = accelerator.process_index
        self.num: int = accelerator.num_processes

    def share(self, whole: Sequence[T], rank: int | None = None) -> list[T]:
        """Every `num`-th member from this process's place, or another's."""
        return list(whole[self.rank if rank is None else rank :: self.num])

    def gathered(self, mine: T) -> list[T]:
        """What each process gives here, in the order of ranks."""
        if self.num == 1:
            return [mine]
        found: list[Any] = [None] * self.num
        dist.all_gather_object(found, mine)
        return found

    def wrap(self, policy: LlamaPolicy, wrapping: Wrapping) -> None:
        """Spread the policy, before an optimiser is made of its weights."""
        wraps: dict[Wrapping, Callable[[Scorer], torch.nn.Module]] = {
            Wrapping.DDP: self._accelerator.prepare_model,
            Wrapping.FSDP2: self._sharded,
        }
        policy.call_through(wraps[wrapping](policy.scorer))

    def _sharded(self, scorer: Scorer) -> torch.nn.Module:
        mesh = init_device_mesh(self._accelerator.device.type, (self.num,))
        frozen = {weight for weight in scorer.parameters() if not weight.requires_grad}
        for layer in scorer.model.model.layers[scorer.first_trained :]:
            fully_shard(layer, mesh=mesh, ignored_params=frozen)
        fully_shard(scorer, mesh=mesh, ignored_params=frozen)
        return scorer


def whole_weights(policy: LlamaPolicy) -> dict[str, Tensor]:
    """The weights that move, in full, in every process; all must call it."""
    return {
        name: weight.full_tensor() if isinstance(weight, DTensor) else weight.detach().clone()
        for name, weight in policy.trained().items()
    }


class ShardedLearner(Learner):
    """A learner whose steps are shared out; all processes give it the same groups and get the same report.

    Args:
        model: wrapped by `Processes.wrap`.
        config: how.
        processes: which take part.
        others: as `Learner`. A reference and a conflict probe need whole weights: not under FSDP2.
    """

    def __init__(
        self, model: LlamaPolicy, config: LearnerConfig, processes: Processes, **others: Any
    ) -> None:
        is_sharded = any(isinstance(weight, DTensor) for weight in model.trained().values())
        if is_sharded and (config.reference_weight or others.get("conflict") is not None):
            raise ValueError("under FSDP2 there is neither a reference nor a conflict probe; use DDP")
        super().__init__(model, config, **others)
        self._processes = processes

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
        for other in processes.gathered(local):
            seen.merge(other)


class ShardedSampler:
    """A `rollouts.Sampler` whose requests are shared out; every process gets all answers.

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
        """As `rollouts.Sampler`."""
        mine = self._processes.share(requests)
        answers = self._processes.gathered(self._sampler.sample(mine, sampling))
        return [
            answers[place % self._processes.num][place // self._processes.num]
            for place in range(len(requests))
        ]
