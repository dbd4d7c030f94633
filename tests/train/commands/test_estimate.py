"""What a run would take: one step of each phase is tried, the critic's included, and nothing moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from rich.console import Console

from tests.train.test_trainer import Judge, small
from train.commands.estimate import Estimate, estimate, show_estimate
from train.domains.catalog import get
from train.parts import Parts
from train.policy import build_policy
from train.recipe import Recipe
from train.rollouts.in_process import InProcessSampler

torch.set_num_threads(1)


def estimated(recipe: Recipe) -> tuple[Estimate, InProcessSampler]:
    """And the sampler, which has sampled one step's rollouts."""
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    parts = Parts(policy.model, policy.sampler, policy.codec, domains, cast("Any", Judge()))
    before = {name: weight.detach().clone() for name, weight in policy.model.trained().items()}
    found = estimate(recipe, parts)
    assert all(torch.equal(weight, before[name]) for name, weight in policy.model.trained().items())
    return found, policy.sampler


def shown(recipe: Recipe, found: Estimate) -> str:
    console = Console(width=120, record=True)
    show_estimate(recipe, found, console)
    return console.export_text()


@pytest.mark.parametrize("width", [0, 8])
def test_a_critic_is_counted(width: int) -> None:
    """By hand: its head four times over in single precision, and the states of every token that was sampled."""
    recipe = small(**{"rl.critic": {"width": width}, "rl.setbacks": {"share": 0.0}})
    found, sampler = estimated(recipe)
    num_weights = 32 * 8 + 8 + 8 + 1 if width else 32 + 1
    assert found.critic_bytes == 4 * (4 * num_weights + 32 * sampler.stats.num_tokens)
    assert 0 < found.critic_step_seconds < found.rl_step_seconds
    assert "the critic, and the states it looks at" in shown(recipe, found)


def test_without_one_there_is_none() -> None:
    """Neither in bytes nor in seconds, and nothing is said of it."""
    recipe = small(**{"rl.reference_weight": 0.0})
    found, _ = estimated(recipe)
    assert (found.critic_bytes, found.critic_step_seconds) == (0, 0.0)
    assert found.learner_bytes == 12 * found.num_trained
    assert "critic" not in shown(recipe, found)
