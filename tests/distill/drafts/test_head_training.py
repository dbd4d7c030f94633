"""A head's training on a tiny target: it goes on where it was, and it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import CalibrationText
from distill.drafts.head_run import METRICS_NAME, READINGS_NAME, SPECULATOR_NAME, Target
from distill.drafts.head_training import train_head
from distill.drafts.readings import Readings
from distill.drafts.recipe import RECIPES, HeadRecipe, TextSettings, load_recipe
from distill.drafts.speculators_format import load_head
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.codec import ChatCodec
from train.domains import catalog
from train.model.weights import load_llama
from train.recipe import RecipeError
from train.rollouts.in_process import InProcessSampler
from train.run_directory import RunError

torch.set_num_threads(1)
RECIPE = HeadRecipe(
    source="tiny",
    texts=TextSettings(
        domains=("chain_sum",), items_per_domain=6, num_general=4, max_answer_tokens=12, temperature=1.0
    ),
    draft_vocab_size=40,
    num_depths=3,
    num_steps=6,
    texts_per_step=4,
    num_warmup_steps=2,
    checkpoint_steps=2,
    cache_mib=1,
)


class _StoppedError(Exception):
    pass


@pytest.fixture
def target(tmp_path: Path) -> Target:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=7, max_positions=1024))
    model = load_llama(tmp_path / "tiny")
    return Target(model, ChatCodec(tmp_path / "tiny"), InProcessSampler(model), str(tmp_path / "tiny"))


def test_stopped_and_gone_on_with(target: Target, tmp_path: Path) -> None:
    """Stopped between checkpoints and resumed, it comes to the same weights to the bit, and to the same metrics."""
    whole = train_head(RECIPE, target, tmp_path / "whole")

    def stop(step: int, metrics: dict[str, Any]) -> None:
        if step == 2:
            raise _StoppedError

    with pytest.raises(_StoppedError):
        train_head(RECIPE, target, tmp_path / "parts", on_step=stop)
    resumed = train_head(RECIPE, target, tmp_path / "parts", is_resumed=True)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    lines = [(tmp_path / name / METRICS_NAME).read_text() for name in ("whole", "parts")]
    assert lines[0] == lines[1]
    assert len(lines[0].splitlines()) == 6
    assert not (tmp_path / "parts" / READINGS_NAME).exists()
    exported = load_head(tmp_path / "parts" / SPECULATOR_NAME)
    assert torch.equal(exported.lm_head.weight, resumed.lm_head.weight)
    config = json.loads((tmp_path / "parts" / SPECULATOR_NAME / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == target.name


def test_what_is_in_the_way(target: Target, tmp_path: Path) -> None:
    """A run is neither begun twice, nor resumed where there is none, nor by another recipe; few layers are refused."""
    with pytest.raises(RunError, match="no run to resume"):
        train_head(RECIPE, target, tmp_path / "run", is_resumed=True)
    short = RECIPE.model_copy(update={"num_steps": 1})
    train_head(short, target, tmp_path / "run")
    with pytest.raises(RunError, match="holds a run already"):
        train_head(short, target, tmp_path / "run")
    with pytest.raises(RunError, match="another recipe"):
        train_head(RECIPE, target, tmp_path / "run", is_resumed=True)
    with pytest.raises(RunError, match="take fewer"):
        train_head(RECIPE.model_copy(update={"draft_vocab_size": 81}), target, tmp_path / "large")


def test_readings_are_bounded(tmp_path: Path) -> None:
    """What is kept is what was read, to the bit; beyond the bound nothing is kept, and the numbers are the same."""
    target = tiny_llama(tiny_shape(num_layers=6), dtype=torch.float32)
    texts = [CalibrationText("a", (1, 2, 3), (4, 5, each)) for each in range(4)]
    fresh = Readings(target, texts, (2, 3, 4), tmp_path / "none", 0)
    some = Readings(target, texts, (2, 3, 4), tmp_path / "some", 4000)
    for _ in range(2):
        for index in range(4):
            assert torch.equal(fresh[index].fused, some[index].fused)
            assert torch.equal(fresh[index].hidden, some[index].hidden)
    assert not list((tmp_path / "none").iterdir())
    kept = list((tmp_path / "some").iterdir())
    assert 1 <= len(kept) < 4


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes(path: Path) -> None:
    """Each loads, and names domains that there are."""
    recipe = load_recipe(path.stem)
    assert all(catalog.get(name) for name in recipe.texts.domains)


def test_recipes_that_cannot_be(tmp_path: Path) -> None:
    """A missing one, and a round deeper than what was learned, are refused with the remedy."""
    with pytest.raises(RecipeError, match="shipped are smollm2"):
        load_recipe("nothing")
    (tmp_path / "deep.toml").write_text('num_drafts = 9\n[texts]\ndomains = ["gcd"]\n')
    with pytest.raises(RecipeError, match="raise `num_depths`"):
        load_recipe(str(tmp_path / "deep.toml"))


@pytest.mark.training
def test_it_learns(target: Target, tmp_path: Path) -> None:
    """On a target from scratch the loss falls at every depth, and acceptance rises at every depth."""
    recipe = RECIPE.model_copy(
        update={"num_steps": 200, "learning_rate": 3e-3, "draft_vocab_size": 80, "checkpoint_steps": 200}
    )
    told: list[dict[str, Any]] = []
    train_head(recipe, target, tmp_path / "run", on_step=lambda step, metrics: told.append(metrics))

    def mean(name: str, depth: int, steps: list[dict[str, Any]]) -> float:
        return sum(each[name][depth] for each in steps) / len(steps)

    for depth in range(recipe.num_depths):
        assert mean("by_depth", depth, told[-20:]) < 0.7 * mean("by_depth", depth, told[:5])
        assert mean("acceptance", depth, told[-20:]) > 1.1 * mean("acceptance", depth, told[:5])
