"""A recipe's policy samples as the recipe says, and is judged as it says."""

from __future__ import annotations

import weakref
from typing import Any, cast

import pytest
import torch

from train.domains.catalog import get
from train.model.linear import FloatLinear, Int8Linear
from train.parts import Parts
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import SampleRequest, Sampling


@pytest.mark.parametrize(("name", "expected"), [("float", FloatLinear), ("int8", Int8Linear)])
def test_the_sampler_is_the_recipes(name: str, expected: type) -> None:
    """`rl.sampler` is how its linear maps are computed."""
    policy = build_policy(
        load_recipe("r0", overrides={"rl.sampler": name}), lambda source: pytest.fail(source)
    )
    assert isinstance(policy.sampler._decoder.logits, expected)


REQUESTS = [SampleRequest((1, 2, 3), (4, 5, 6)), SampleRequest((7,), (8,))]


def parts_of(recipe: Recipe) -> Parts:
    policy = build_policy(recipe, lambda source: pytest.fail(source), num_slots=8)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    judge = cast("Any", None)
    return Parts(
        policy.model, policy.sampler, policy.codec, domains, judge, make_evaluator=policy.make_evaluator
    )


def test_evaluations_draw_from_the_weights_themselves() -> None:
    """Where rollouts come from eight bits: to the bit what a float sampler gives, of the weights as they are then."""
    parts = parts_of(load_recipe("r0", overrides={"rl.sampler": "int8"}))
    model = cast("Any", parts.model).model
    for version in range(2):
        found = parts.evaluator(version)
        assert found is not parts.sampler
        exact = InProcessSampler(model, make_linear=FloatLinear).sample(REQUESTS, Sampling())
        drawn = found.sample(REQUESTS, Sampling())
        assert [[span.behavior_logprobs for span, _ in row] for row in drawn] == [
            [span.behavior_logprobs for span, _ in row] for row in exact
        ]
        eight = parts.sampler.sample(REQUESTS, Sampling())
        assert eight[0][0][0].behavior_logprobs != drawn[0][0][0].behavior_logprobs
        with torch.no_grad():
            for weight in parts.model.trained().values():
                weight.mul_(1.5)


def test_an_evaluation_leaves_nothing_behind() -> None:
    """What is made for it goes with it, so that weights do not stand twice in memory while the run learns."""
    parts = parts_of(load_recipe("r0", overrides={"rl.sampler": "int8"}))
    gone = weakref.ref(parts.evaluator(0))
    assert gone() is None


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_where_both_are_alike_there_is_one(kind: str) -> None:
    """The run's sampler, told of the weights."""
    parts = parts_of(load_recipe("r0", overrides={"rl.sampler": kind, "evaluation.sampler": kind}))
    assert parts.evaluator(3) is parts.sampler
    assert parts.sampler.policy_version == 3
