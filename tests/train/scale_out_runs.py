"""What `test_scale_out_runs` launches in each process: whole runs of a tiny policy, with all that has a state."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from tests.train.test_trainer import Judge, small
from train.domains.base import Item
from train.domains.catalog import get
from train.model.llama import Llama
from train.model.trainable import moving
from train.parts import Parts
from train.policy import build_policy
from train.processes import ApartError, Processes, joined
from train.recipe import Recipe
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.run_directory import RunError
from train.scale_out import ShardedJudge, Wrapping, spread_out
from train.shared_run import SharedRun
from train.trainer import Trainer
from train.transcript import Message, Transcript

STOP_AFTER: Final = 6
"""Of 8 steps: in reinforcement, the critic, the reference and the conflict matrix being under way."""
CASES: Final = [(wrapping, name) for wrapping in Wrapping for name in ("whole", "left", "taken")]
"""Run by two from its beginning to its end; left by two for one to go on with; taken up by two where one left it."""

PAIR: Final = (
    Item(domain="d", level=0, seed=0, index=0, prompt="p"),
    Transcript((Message("assistant", "a"),)),
)


def recipe() -> Recipe:
    """Both phases: reference, critic, conflict probe, entropy band, second tries, evaluations."""
    changes: dict[str, object] = {
        "base.num_layers": 2,
        "rl.critic": {"num_warmup_steps": 1},
        "rl.conflict": {"is_measured": True, "is_projected": True, "cosine": 0.0},
        "rl.reference_reset_steps": 3,
        "evaluation": {"num_items": 4, "num_samples": 1, "every_steps": 2},
        "micro_batch_tokens": 128,
    }
    return small(**changes)


class Evaluator:
    """A sampler made for one evaluation, which notes how much it was asked for."""

    policy_version = 0

    def __init__(self, model: Llama, asked: list[int]) -> None:
        self._sampler = InProcessSampler(model, num_slots=16)
        self._asked = asked

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        self._asked.append(len(requests))
        return self._sampler.sample(requests, sampling)


def go(
    path: Path,
    processes: Processes,
    wrapping: Wrapping,
    *,
    stop_after: int | None,
    is_resumed: bool,
    asked: list[int] | None = None,
) -> dict[str, Tensor]:
    """Run, or go on, until the end or for so many steps; the weights that sample then. `asked` gets the number of
    prompts of each call of an evaluation in this process."""
    wanted = recipe()
    policy = build_policy(wanted, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in wanted.domains}
    judge: Any = Judge()
    noted = [] if asked is None else asked
    parts = Parts(
        policy.model,
        policy.sampler,
        policy.codec,
        domains,
        judge,
        make_evaluator=lambda: Evaluator(policy.model.model, noted),
    )
    parts = spread_out(parts, wanted, processes, wrapping)
    with SharedRun(path, wanted, processes, is_resumed=is_resumed) as run:
        trainer = Trainer(
            wanted,
            parts,
            run,
            # told to one process alone: all must hear it
            is_stopping=lambda: processes.is_any(
                processes.rank == processes.num - 1
                and stop_after is not None
                and sum(trainer.num_done.values()) >= stop_after
            ),
        )
        assert trainer.run(is_resumed=is_resumed) is (stop_after is None)
    return {name: weight.detach().clone() for name, weight in moving(policy.model.model).items()}


def main(out: Path) -> None:
    """Every case, one after the other, in processes that were launched once."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with joined() as processes:
        for wrapping, name in CASES:
            path = out / f"{wrapping}-{name}"
            stop_after = STOP_AFTER if name == "left" else None
            asked: list[int] = []
            weights = go(
                path, processes, wrapping, stop_after=stop_after, is_resumed=name == "taken", asked=asked
            )
            torch.save(weights, out / f"{wrapping}-{name}-{processes.rank}.pt")
            (out / f"{wrapping}-{name}-{processes.rank}.asked").write_text(json.dumps(asked))
        try:
            SharedRun(out / f"{Wrapping.DDP}-whole", recipe(), processes, is_resumed=False)
        except RunError as error:
            (out / f"refused-{processes.rank}").write_text(str(error))
        try:
            ShardedJudge(Judge(), processes).verify_all([PAIR] * (1 + processes.rank))
        except ApartError as error:
            (out / f"apart-{processes.rank}").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
