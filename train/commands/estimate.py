"""What a run would take, measured on its own first items and weights: seconds, and bytes. No weight is moved."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from train.appraisal import is_appraised
from train.batch import Group
from train.collector import Collector
from train.critic import Critic
from train.curriculum import Curriculum
from train.demonstrations import demonstrations
from train.learner import Learner, LearnerConfig
from train.parts import Parts
from train.recipe import Recipe

BYTES_EACH: Final = 4
"""Of single precision."""
COPIES: Final = 3
"""Of each weight that moves, beside itself: its gradient and AdamW's two moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Of a run."""

    sft_step_seconds: float
    rl_step_seconds: float
    """The critic's step included, where there is one."""
    critic_step_seconds: float
    """0 without one."""
    num_trained: int
    learner_bytes: int
    """What moving weights take beside themselves."""
    critic_bytes: int
    """Of its head, with what moving it takes, and of the states that one step looks at; 0 without one."""
    peak_bytes: int
    """Of this process, one step of each phase having been tried: what the run will about take."""


def estimate(recipe: Recipe, parts: Parts) -> Estimate:
    """Try one step of each phase at a learning rate of nothing."""
    num_trained = sum(weight.numel() for weight in parts.model.trained().values())
    curriculum = Curriculum({domain.name: domain.levels for domain in recipe.domains}, kind="uniform")
    collector = Collector(recipe, parts, curriculum, None)
    learner = Learner(
        parts.model, LearnerConfig(learning_rate=0.0, micro_batch_tokens=recipe.micro_batch_tokens)
    )
    began = time.perf_counter()
    items = collector.items(curriculum.plan(0, recipe.sft.items_per_step))
    learner.step(demonstrations(items, parts, has_modes=recipe.modes is not None))
    between = time.perf_counter()
    groups = collector.collect(0).groups
    collected = time.perf_counter()
    critic = _critic(recipe, parts)
    if critic is not None:
        groups = critic.step(groups, None).groups
    appraised = time.perf_counter()
    learner.step(groups)
    return Estimate(
        sft_step_seconds=between - began,
        rl_step_seconds=time.perf_counter() - between,
        critic_step_seconds=appraised - collected if critic is not None else 0.0,
        num_trained=num_trained,
        learner_bytes=num_trained * BYTES_EACH * (COPIES + bool(recipe.rl.reference_weight)),
        critic_bytes=_critic_bytes(critic, parts, groups) if critic is not None else 0,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _critic(recipe: Recipe, parts: Parts) -> Critic | None:
    if recipe.rl.critic is None:
        return None
    return parts.make_critic(
        parts.model, recipe.rl.critic, micro_batch_tokens=recipe.micro_batch_tokens, seed=recipe.seed
    )


def _critic_bytes(critic: Critic, parts: Parts, groups: Sequence[Group]) -> int:
    num_weights = sum(weight.numel() for weight in critic.head.parameters())
    num_states = sum(
        credit.rollout.num_sampled for group in groups for credit in group.credits if is_appraised(credit)
    )
    return BYTES_EACH * (num_weights * (1 + COPIES) + num_states * parts.model.hidden_size)


def show_estimate(recipe: Recipe, found: Estimate, console: Console) -> None:
    """As a table."""
    table = Table(title=f"{recipe.name}: {recipe.about}", title_justify="left", show_header=False)
    sft = recipe.sft.num_steps * found.sft_step_seconds
    rl = recipe.rl.num_steps * found.rl_step_seconds
    rows = {
        "weights that move": f"{found.num_trained:,}",
        "their gradients and moments": f"{found.learner_bytes / 2**20:,.0f} MiB",
        **(
            {
                "the critic, and the states it looks at": f"{found.critic_bytes / 2**20:,.1f} MiB",
                "of a step of reinforcement, the critic's": f"{found.critic_step_seconds:.1f} s",
            }
            if recipe.rl.critic is not None
            else {}
        ),
        "memory at its peak, about": f"{found.peak_bytes / 2**20:,.0f} MiB",
        "learning by heart": f"{recipe.sft.num_steps} steps of {found.sft_step_seconds:.1f} s: {_minutes(sft)}",
        "reinforcement": f"{recipe.rl.num_steps} steps of {found.rl_step_seconds:.1f} s: {_minutes(rl)}",
        "altogether, evaluations apart": _minutes(sft + rl),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
