"""A recipe's policy samples as the recipe says."""

from __future__ import annotations

import pytest

from train.model.linear import FloatLinear, Int8Linear
from train.policy import build_policy
from train.recipe import load_recipe


@pytest.mark.parametrize(("name", "expected"), [("float", FloatLinear), ("int8", Int8Linear)])
def test_the_sampler_is_the_recipes(name: str, expected: type) -> None:
    """`rl.sampler` is how its linear maps are computed."""
    policy = build_policy(
        load_recipe("r0", overrides={"rl.sampler": name}), lambda source: pytest.fail(source)
    )
    assert isinstance(policy.sampler._decoder.logits, expected)
