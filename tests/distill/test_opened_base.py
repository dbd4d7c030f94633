"""The model that a student is cut from, wherever it comes from, and what a run writes down of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from distill.opened_base import OpenedBase, open_base, weights_sha256
from distill.recipe import StudentRecipe
from distill.student_directory import keep_origin
from serving.registry.manifest import Description
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from tests.distill.student import tiny_recipe
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from tests.train.test_publish import quiet
from train.checkpointing import Checkpoint
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.lora import LoraLinear, effective_weight
from train.model.weights import load_llama, state_of
from train.policy import build_policy
from train.recipe import Recipe
from train.run_directory import RunDirectory, RunError

torch.set_num_threads(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "registry")


def test_a_run_is_opened_as_it_stands(tmp_path: Path, store: Store) -> None:
    """Its last checkpoint, adapters merged into plain weights, named by its directory."""
    recipe = Recipe.model_validate(
        {
            "name": "tiny",
            "about": "for tests",
            "base": {"type": "scratch", "num_layers": 2, "width": 32, "num_heads": 2, "max_tokens": 64},
            "adapt": {"method": "lora", "rank": 2},
            "domains": [{"name": "terse_sorting"}],
        }
    )
    policy = build_policy(recipe, lambda source: Path(source))
    trained = policy.model.trained()
    with torch.no_grad():
        for weight in trained.values():
            weight.add_(0.1)
    with RunDirectory(tmp_path / "run", recipe, is_resumed=False) as run:
        run.save(
            Checkpoint(3, {f"weight.{name}": w.detach() for name, w in trained.items()}, {"phase": "sft"})
        )
    found = open_base(_of({"type": "run", "path": str(tmp_path / "run")}), store, quiet())
    assert (found.name, found.base, found.start) == (str(tmp_path / "run"), "scratch", None)
    ours, theirs = (
        model.get_submodule("model.layers.1.mlp.up_proj") for model in (found.model, policy.model.model)
    )
    assert isinstance(theirs, LoraLinear)
    assert not isinstance(ours, LoraLinear)
    assert torch.equal(ours.weight, effective_weight(theirs))


def test_an_alias_is_the_version_that_it_means(tmp_path: Path, store: Store) -> None:
    """A student's run names that version, and goes on with no other, though the alias is moved."""
    aliased = parse_alias("tiny@stable")
    for number in range(2):
        write_checkpoint(tmp_path / f"{number}", tiny_shape(vocab_size=80, num_layers=1 + number))
        convert_to_gguf(tmp_path / f"{number}", tmp_path / f"{number}.gguf")
        about = Description(kind="base", name="tiny", licence="MIT", format="gguf")
        artifact = store.publish(tmp_path / f"{number}.gguf", about)
        store.aliases.point(aliased, artifact.reference, by="test", reason="a test")
        found = open_base(_of({"type": "artifact", "source": "tiny@stable"}), store, quiet())
        assert found.name == found.base == str(artifact.reference)
        assert found.start is not None
        assert weights_sha256(found.model) == weights_sha256(load_llama(tmp_path / f"{number}"))
        if number:
            with pytest.raises(RunError, match="name that version, or begin anew"):
                keep_origin(tmp_path, found)
        else:
            keep_origin(tmp_path, found)
            keep_origin(tmp_path, found)


def test_the_hash_is_of_weights() -> None:
    """One number more or less is another hash; nothing is the same."""
    recipe = tiny_recipe()
    base = open_base(recipe, Store(Path("nowhere")), quiet())
    before = weights_sha256(base.model)
    assert open_base(recipe, Store(Path("nowhere")), quiet()).origin()["teacher_sha256"] == before
    next(iter(state_of(base.model).values())).view(-1)[5] += 1e-3
    assert weights_sha256(base.model) != before
    assert isinstance(base, OpenedBase)


def _of(base: dict[str, str]) -> StudentRecipe:
    return tiny_recipe(base=base)
