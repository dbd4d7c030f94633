"""The benchmark of steps times what it says, and its floor counts what is computed."""

from __future__ import annotations

import pytest
import torch

from tests.train.model.tiny import tiny_llama
from train.commands.bench_step import main
from train.model.trainable import train_all, train_top_layers
from train.recipe import load_recipe
from train.step_benchmark import layer_weights, learn_operations, measure

torch.set_num_threads(1)


def test_operations_by_hand() -> None:
    """Two for each weight and token forward, four more where weights move; the last layer where it is asked alone."""
    model = tiny_llama()  # 24 wide, 40 inside, four heads of 6 and two for keys, three layers, 61 tokens
    assert layer_weights(model) == 24 * 24 * 2 + 24 * 12 * 2 + 3 * 24 * 40
    each, head = layer_weights(model), 61 * 24
    train_top_layers(model, 2)
    assert learn_operations(model, 10, 3) == each * (10 * (2 + 6) + 3 * 6) + 3 * 4 * head
    train_all(model)
    assert learn_operations(model, 10, 3) == each * (10 * (6 + 6) + 3 * 6) + 3 * 6 * head


def test_a_recipe_is_measured() -> None:
    """Every stage has its times; what is shared is computed once; eight bits are another policy, floats are not."""
    recipe = load_recipe("r0", overrides={"sft.items_per_step": 8, "rl.groups_per_step": 2})
    cost = measure(recipe, lambda source: pytest.fail(source), num_sft_steps=2, num_rl_steps=1)
    assert set(cost.stages) == {
        "sft", "float update", "float sample", "int8 update", "int8 sample", "rl",
    }  # fmt: skip
    assert len(cost.stages["sft"].cpu_s) == 2
    assert len(cost.stages["rl"].cpu_s) == 1
    for name in ("sft", "rl", "float sample"):
        stage = cost.stages[name]
        assert 0 < stage.num_computed[0] < stage.num_tokens[0]
        assert stage.floor_s[0] > 0
    assert cost.ratios["float"][0].largest < 1 + 1e-4 < cost.ratios["int8"][0].largest


def test_a_recipe_with_a_base_says_that_it_needs_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is fetched for a benchmark."""
    assert main(["r2"]) == 2
    assert "--base" in capsys.readouterr().err
    assert main(["r99"]) == 2
