"""What `test_scale_out` launches in each process: steps of a tiny policy, and what they came to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from tests.train.model.tiny import tiny_llama
from train.batch import Credit, Group
from train.entropy import EntropyBand
from train.learner import LearnerConfig, StepReport
from train.losses import Objective
from train.model.linear import FloatLinear
from train.model.lora import add_lora
from train.model.policy import LlamaPolicy
from train.model.trainable import moving, train_all, train_top_layers
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason

if TYPE_CHECKING:
    from train.processes import Processes

CONFIG = LearnerConfig(
    objective=Objective.DAPO, learning_rate=1e-3, num_warmup_steps=0, micro_batch_tokens=24, max_tokens=8
)
NUM_STEPS = 3
CASES = [
    ("ddp", "all"), ("ddp", "top_layers"), ("fsdp2", "all"), ("fsdp2", "top_layers"), ("fsdp2", "lora")
]  # fmt: skip
REQUESTS = [SampleRequest((place + 1, 7), (place, place + 10)) for place in range(3)]
SAMPLING = Sampling(max_tokens=4)


def policy(method: str) -> LlamaPolicy:
    model = tiny_llama()
    if method == "all":
        train_all(model)
    elif method == "top_layers":
        train_top_layers(model, 2)
    else:
        add_lora(model, rank=2, alpha=4.0, seed=1)
    return LlamaPolicy(model)


def band() -> EntropyBand:
    return EntropyBand(low=9.0, high=10.0)


def groups(step: int) -> list[Group]:
    """Five groups of unlike lengths and of all losses: no share of them is like another."""
    generator = torch.Generator().manual_seed(step)
    made = []
    for place in range(5):
        prompt = Span(tuple(torch.randint(61, (2 + place,), generator=generator).tolist()))
        credits = []
        for rollout in range(2 + place % 2):
            num = 1 + (place + 2 * rollout) % 5
            ids = tuple(torch.randint(61, (num,), generator=generator).tolist())
            is_learned_by_heart = place == 3
            span = Span(ids) if is_learned_by_heart else Span(ids, (-4.0,) * num, 0)
            advantage = 0.0 if is_learned_by_heart else (-1.0) ** rollout * (1 + place)
            credits.append(
                Credit(
                    Rollout((prompt, span), StopReason.END),
                    (advantage,) * num,
                    (float(is_learned_by_heart),) * num,
                )
            )
        made.append(Group("d", prompt.token_ids, tuple(credits)))
    return made


def told(reports: list[StepReport]) -> list[dict[str, float]]:
    return [
        {
            **{f"loss/{kind}": value for kind, value in report.losses.items()},
            "norm": report.grad_norm,
            "entropy": report.entropy,
            "ratio": report.mean_ratio,
            "clipped": report.clipped_share,
            "rejected": float(report.num_rejected),
        }
        for report in reports
    ]


def answers(model: LlamaPolicy) -> InProcessSampler:
    return InProcessSampler(model.model, num_slots=4, make_linear=FloatLinear)


def main(out: Path) -> None:
    """Every case, one after the other, in processes that were launched once."""
    from train.processes import Processes

    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    processes = Processes(accelerator)
    for wrapping, method in CASES:
        torch.save(case(wrapping, method, processes), out / f"{wrapping}-{method}-{processes.rank}.pt")
    accelerator.end_training()


def case(wrapping: str, method: str, processes: Processes) -> dict[str, Any]:
    from train.scale_out import ShardedLearner, ShardedSampler, Wrapping, wrap

    made = policy(method)
    drawn = ShardedSampler(answers(made), processes).sample(REQUESTS, SAMPLING)
    wrap(made, processes, Wrapping(wrapping))
    learner = ShardedLearner(made, CONFIG, processes=processes, entropy_band=band())
    reports = [learner.step(groups(step)) for step in range(NUM_STEPS)]
    weights = {name: weight.detach() for name, weight in moving(made.model).items()}
    return {"weights": weights, "reports": told(reports), "drawn": drawn, "num": processes.num}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
