"""A head's training on a tiny target: it goes on where it was, and it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from distill.calibration import CalibrationText
from distill.drafts.acceptance import measure
from distill.drafts.head_run import (
    ACCEPTANCE_NAME,
    READINGS_NAME,
    SPECULATOR_NAME,
    TEXTS_NAME,
    Target,
    answers,
    held_out,
    verifier_name,
)
from distill.drafts.head_training import HeadStep, train_head
from distill.drafts.model_draft import Drawing
from distill.drafts.readings import Readings
from distill.drafts.recipe import AcceptanceSettings, HeadRecipe, TextSettings, load_recipe
from distill.drafts.speculators_format import load_head
from distill.drafts.unrolled import HeadDraft
from distill.recipe import RECIPES
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.codec import ChatCodec
from train.model.weights import load_llama
from train.recipe import BaseSettings, DomainSettings, RecipeError
from train.rollouts.in_process import InProcessSampler
from train.run_directory import METRICS_NAME, RunError

torch.set_num_threads(1)
RECIPE = HeadRecipe(
    name="tiny",
    about="for tests",
    base=BaseSettings(type="artifact", source="tiny"),
    domains=(DomainSettings(name="chain_sum", levels=(0,)),),
    texts=TextSettings(items_per_domain=6, num_general=4, max_answer_tokens=12, temperature=1.0),
    evaluation=AcceptanceSettings(num_items=3),
    draft_vocab_size=40,
    num_depths=3,
    num_steps=6,
    texts_per_step=4,
    num_warmup_steps=2,
    checkpoint_every_steps=2,
    cache_mib=1,
)


class _StoppedError(Exception):
    pass


@pytest.fixture
def target(tmp_path: Path) -> Target:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=7, max_positions=1024))
    model = load_llama(tmp_path / "tiny")
    return Target(model, ChatCodec(tmp_path / "tiny"), InProcessSampler(model), str(tmp_path / "tiny"))


def _lines(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / METRICS_NAME).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "fallen"])
def test_stopped_and_gone_on_with(target: Target, tmp_path: Path, is_told: bool) -> None:
    """Told to stop or fallen between checkpoints, and resumed, it comes to the same head to the bit, and metrics."""
    whole = train_head(RECIPE, target, tmp_path / "whole")
    assert whole is not None
    out, steps = tmp_path / "parts", list[HeadStep]()

    def hear(step: HeadStep) -> None:
        steps.append(step)
        if not is_told and len(steps) == 3:
            raise _StoppedError

    if is_told:
        assert train_head(RECIPE, target, out, on_step=hear, is_stopping=lambda: len(steps) == 3) is None
    else:
        with pytest.raises(_StoppedError):
            train_head(RECIPE, target, out, on_step=hear)
    assert not (out / SPECULATOR_NAME).exists()
    resumed = train_head(RECIPE, target, out, is_resumed=True)
    assert resumed is not None
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    assert _lines(out) == _lines(tmp_path / "whole")
    assert [line["step"] for line in _lines(out)] == [1, 2, 3, 4, 5, 6]
    assert not (out / READINGS_NAME).exists()
    acceptance = [(place / ACCEPTANCE_NAME).read_text() for place in (tmp_path / "whole", out)]
    assert acceptance[0] == acceptance[1]


def test_what_is_exported_is_what_is_measured(target: Target, tmp_path: Path) -> None:
    """Rounded to bfloat16, named as the target is; its acceptance on held-out items is `measure`'s of that file."""
    head = train_head(RECIPE, target, tmp_path / "run")
    assert head is not None
    exported = tmp_path / "run" / SPECULATOR_NAME
    saved = load_file(exported / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values() if tensor.is_floating_point()} == {torch.bfloat16}
    again = load_head(exported)
    assert torch.equal(again.lm_head.weight, head.lm_head.weight)
    config = json.loads((exported / "config.json").read_text())
    assert config["torch_dtype"] == "bfloat16"
    assert config["speculators_config"]["verifier"]["name_or_path"] == target.name
    told = json.loads((tmp_path / "run" / ACCEPTANCE_NAME).read_text())["acceptance"]
    texts = answers(held_out(RECIPE), RECIPE, target, temperature=1.0)
    found = measure(HeadDraft(again, target.model, Drawing(1.0)), texts, RECIPE.num_drafts)
    assert told == json.loads(json.dumps([each.as_json() for each in found]))
    assert told[0]["num_texts"] == 3


def test_stopped_while_the_target_answers(target: Target, tmp_path: Path) -> None:
    """Nothing of the answers is kept, and the run can be gone on with."""
    assert train_head(RECIPE, target, tmp_path / "run", is_stopping=lambda: True) is None
    assert not (tmp_path / "run" / TEXTS_NAME).exists()
    assert train_head(RECIPE, target, tmp_path / "run", is_resumed=True) is not None


def test_a_head_names_no_path_of_this_machine(tmp_path: Path) -> None:
    """A version and a hub's name as they are, a path by its last part, and whatever the recipe says before all."""
    assert verifier_name(RECIPE, "policy:3") == "policy:3"
    assert verifier_name(RECIPE, "owner/model") == "owner/model"
    assert verifier_name(RECIPE, str(tmp_path / "checkpoint")) == "checkpoint"
    named = RECIPE.model_copy(update={"verifier": "owner/mine"})
    assert verifier_name(named, str(tmp_path / "checkpoint")) == "owner/mine"


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


# a library of reasoning-gym's leaves a file open when all domains are looked at
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", sorted(RECIPES.glob("head*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes(path: Path) -> None:
    """Each loads by its name, which it has inside too, and comes back from its own JSON."""
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem
    assert HeadRecipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_recipes_that_cannot_be() -> None:
    """A missing one, a round deeper than what was learned, a domain twice: refused with the remedy."""
    with pytest.raises(RecipeError, match="shipped are"):
        load_recipe("nothing")
    with pytest.raises(RecipeError, match="raise `num_depths`"):
        load_recipe("head_smoke", {"num_drafts": 9})
    with pytest.raises(RecipeError, match="stands twice"):
        load_recipe("head_smoke", {"domains": [{"name": "gcd"}, {"name": "gcd"}]})


@pytest.mark.training
def test_it_learns(target: Target, tmp_path: Path) -> None:
    """On a target from scratch the loss falls at every depth, and acceptance rises at every depth."""
    recipe = RECIPE.model_copy(
        update={
            "num_steps": 200,
            "learning_rate": 3e-3,
            "draft_vocab_size": 80,
            "checkpoint_every_steps": 200,
        }
    )
    told: list[dict[str, Any]] = []
    train_head(recipe, target, tmp_path / "run", on_step=lambda step: told.append(dict(step.metrics)))

    def mean(name: str, depth: int, steps: list[dict[str, Any]]) -> float:
        return sum(each[name][depth] for each in steps) / len(steps)

    for depth in range(recipe.num_depths):
        assert mean("divergence_by_depth", depth, told[-20:]) < 0.7 * mean(
            "divergence_by_depth", depth, told[:5]
        )
        assert mean("acceptance", depth, told[-20:]) > 1.1 * mean("acceptance", depth, told[:5])
