"""Stages of growing length: which is in force is told by the step, and a run that was stopped goes on in the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from tests.train.test_trainer import Judge
from train.checkpointing import load_latest
from train.codec import CharacterCodec
from train.context import ContextError, ContextSettings, fitting
from train.domains.catalog import get
from train.model.policy import LlamaPolicy
from train.model.rope import RopeScaling
from train.parts import Parts
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.run_directory import RunDirectory, load_weights, read_metrics
from train.trainer import Trainer

STAGES = ({"max_tokens": 24}, {"from_step": 2, "max_tokens": 40, "factor": 2.0}, {"from_step": 4, "max_tokens": 80, "factor": 4.0})  # fmt: skip  # noqa: E501
LINEAR = ContextSettings.model_validate({"scaling": "linear", "stages": STAGES})


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recipe(**changes: object) -> Recipe:
    """Six steps of a tiny policy over three stages."""
    overrides: dict[str, object] = {
        "base.width": 16, "base.num_layers": 1, "base.max_tokens": 24,
        "domains": [{"name": "terse_needle", "levels": [0, 1, 2], "max_answer_tokens": 5}],
        "context": {"scaling": "linear", "stages": list(STAGES)},
        "sft.num_steps": 6, "sft.items_per_step": 8, "rl.num_steps": 1, "rl.groups_per_step": 2,
        "evaluation.num_items": 3, "evaluation.num_samples": 1, "checkpoint_every_steps": 1,
    }  # fmt: skip
    return load_recipe("r0", overrides=overrides | changes)


def parts_of(recipe: Recipe) -> Parts:
    def nothing(_: str) -> Path:
        raise AssertionError("random weights need no base")

    made = build_policy(recipe, nothing, num_slots=4)
    domains = {each.name: get(each.name) for each in recipe.domains}
    return Parts(made.model, made.sampler, made.codec, domains, Judge())


def trained(recipe: Recipe, out: Path, *, stops_after: int | None = None, is_resumed: bool = False) -> Parts:
    parts, steps = parts_of(recipe), list[Any]()
    with RunDirectory(out, recipe, is_resumed=is_resumed) as run:
        stops = lambda: stops_after is not None and len(steps) > stops_after  # noqa: E731 - one line
        Trainer(recipe, parts, run, on_step=steps.append, is_stopping=stops).run(is_resumed=is_resumed)
    return parts


@pytest.mark.parametrize(
    ("step", "factor", "max_tokens"),
    [(0, 1, 24), (1, 1, 24), (2, 2, 40), (3, 2, 40), (4, 4, 80), ("last", 4, 80)],
)
def test_the_stage_of_a_step(step: Any, factor: float, max_tokens: int) -> None:
    """The last that has begun; at a factor of 1 positions are the base's own."""
    base = RopeScaling(kind="linear", factor=8.0)
    assert LINEAR.stage_at(step).max_tokens == max_tokens
    expected = base if factor == 1 else RopeScaling(kind="linear", factor=factor)
    assert LINEAR.scaling_at(step, base, 24) == expected


def test_the_first_context_is_the_bases_where_none_is_told() -> None:
    """What `yarn` and `llama3` need of the first training."""
    settings = ContextSettings.model_validate(
        {"scaling": "yarn", "stages": [{"max_tokens": 80, "factor": 4}]}
    )
    assert settings.scaling_at(0, None, 24) == RopeScaling(kind="yarn", factor=4.0, original_max_positions=24)
    told = settings.model_copy(update={"original_tokens": 32})
    assert told.scaling_at(0, None, 24) == RopeScaling(kind="yarn", factor=4.0, original_max_positions=32)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"from_step": 1, "max_tokens": 32}], "let the first begin at 0"),
        ([{"max_tokens": 32}, {"max_tokens": 64}], "each later than the one before"),
        ([{"max_tokens": 64}, {"from_step": 3, "max_tokens": 32}], "let them grow"),
        ([], "at least 1 item"),
    ],
)
def test_stages_that_do_not_grow_are_refused(stages: list[dict[str, int]], message: str) -> None:
    """The message says how they should be."""
    with pytest.raises(ValidationError, match=message):
        ContextSettings.model_validate({"stages": stages})


def test_levels_go_with_the_stage_that_has_room_for_them() -> None:
    """Haystacks of 16, 32 and 64 characters, a question mark, two marks and a word of four."""
    domains = {"terse_needle": get("terse_needle")}
    found = fitting(LINEAR, {"terse_needle": (1, 2, 3)}, domains, CharacterCodec())
    assert [each["terse_needle"] for each in found] == [(1,), (1, 2), (1, 2, 3)]
    with pytest.raises(ContextError, match="take 135 tokens and the last stage has 80"):
        fitting(LINEAR, {"terse_needle": (1, 4)}, domains, CharacterCodec())
    with pytest.raises(
        ContextError, match="no level of terse_needle fits a stage of 24 tokens; let it have 39"
    ):
        fitting(LINEAR, {"terse_needle": (2, 3)}, domains, CharacterCodec())


def test_a_run_lengthens_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """Stopped within the second stage, it comes to the weights of the run that was not, and to the last scaling; each
    stage's steps see levels of that stage alone; who loads a checkpoint gets its stage's scaling."""
    whole = trained(recipe(), tmp_path / "whole")
    assert (whole.model.rope_scaling, whole.model.max_positions) == (
        RopeScaling(kind="linear", factor=4.0),
        80,
    )
    lines = [line for line in read_metrics(tmp_path / "whole") if line["phase"] == "sft"]
    assert [line["context_tokens"] for line in lines] == [24, 24, 40, 40, 80, 80]

    trained(recipe(), tmp_path / "parted", stops_after=3)
    fresh = parts_of(recipe()).model
    assert load_weights(tmp_path / "parted", fresh) == 3
    assert fresh.rope_scaling == RopeScaling(kind="linear", factor=2.0)
    trained(recipe(), tmp_path / "parted", is_resumed=True)
    first, second = (load_latest(tmp_path / name / "checkpoints") for name in ("whole", "parted"))
    assert first is not None
    assert second is not None
    assert first.tensors.keys() == second.tensors.keys()
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


def test_scaling_changes_what_the_policy_says(tmp_path: Path) -> None:
    """A decoder made after `rotate_by` computes with it, and one made before does not."""
    parts = parts_of(recipe())
    assert isinstance(parts.model, LlamaPolicy)
    prompt = tuple(range(20))
    before = parts.sampler._decoder  # type: ignore[attr-defined]
    parts.model.rotate_by(RopeScaling(kind="linear", factor=4.0), 80)
    parts.sampler.update(1)
    after = parts.sampler._decoder  # type: ignore[attr-defined]
    ((one,), (other,)) = before.prefill([prompt]), after.prefill([prompt])
    assert not torch.allclose(one.keys, other.keys)
