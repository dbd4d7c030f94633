"""What each phase begins with, and that its state is whole in a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.train.test_trainer import Judge, small
from train.domains.catalog import get
from train.parts import Parts
from train.phase import Phase, PhaseState, begun
from train.policy import build_policy
from train.recipe import Recipe

torch.set_num_threads(1)


def phase_of(recipe: Recipe, phase: Phase) -> tuple[PhaseState, Parts]:
    policy = build_policy(recipe, Path, num_slots=4)
    judge: Any = Judge()
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    parts = Parts(policy.model, policy.sampler, policy.codec, domains, judge)
    return begun(phase, recipe, parts), parts


def test_only_reinforcement_has_what_it_needs() -> None:
    """Learning by heart knows no band, conflict, critic or reference, whatever the recipe says of reinforcement."""
    recipe = small(**{"rl.critic": {"num_warmup_steps": 1}})
    sft, parts = phase_of(recipe, Phase.SFT)
    assert (sft.band, sft.conflict, sft.critic) == (None, None, None)
    assert sft.learner.config.reference_weight == 0
    assert not parts.model.reference_weights()
    rl, parts = phase_of(recipe, Phase.RL)
    assert None not in (rl.band, rl.conflict, rl.critic, rl.scale)
    assert rl.learner.config.reference_weight == recipe.rl.reference_weight
    assert parts.model.reference_weights().keys() == parts.model.trained().keys()
    assert rl.learner.config.num_steps == recipe.rl.num_steps - 1  # the first is the critic's alone


def test_its_state_comes_back() -> None:
    """Put into a phase that has just begun, the plain state and the tensors of another make it that one."""
    recipe = small(**{"rl.critic": {}})
    state, parts = phase_of(recipe, Phase.RL)
    state.learner.num_steps_done = 7
    state.curriculum.observe(recipe.domains[0].name, recipe.domains[0].levels[0], num_passed=3, num_failed=1)
    with torch.no_grad():
        next(iter(parts.model.trained().values())).add_(1.0)
    other, others = phase_of(recipe, Phase.RL)
    assert other.plain() != state.plain()
    other.restore(state.plain(), state.tensors(parts), others)
    assert other.plain() == state.plain()
    found, wanted = other.tensors(others), state.tensors(parts)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
