"""Recipes of students: the shipped ones load, and what cannot be is said with its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distill.recipe import RECIPES, StudentRecipe, load_recipe
from tests.distill.student import tiny_recipe
from train.recipe import RecipeError


# a library of reasoning-gym's leaves a file open when all domains are looked at
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", sorted(RECIPES.glob("student*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_load(path: Any) -> None:
    """Each, by its name, which it has inside too; and comes back from its own JSON."""
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem
    assert StudentRecipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert recipe.texts.served is None or recipe.texts.served.is_file()


def test_members_are_changed_by_dotted_path() -> None:
    """As on the command line, where a part is missing too."""
    changed = {"kd.num_steps": 7, "prune.num_layers": 3, "teacher.url": "http://127.0.0.1:8000"}
    recipe = load_recipe("student_smoke", changed)
    assert (recipe.kd.num_steps, recipe.prune.num_layers) == (7, 3)
    assert recipe.teacher is not None
    assert recipe.teacher.num_told == 20
    with pytest.raises(RecipeError, match="no recipe 'none'; shipped are"):
        load_recipe("none")
    with pytest.raises(RecipeError, match=r"kd\.steps"):
        load_recipe("student_smoke", {"kd.steps": 1})


def test_served_prompts_are_found_from_the_recipe(tmp_path: Path) -> None:
    """Wherever the command is called; what the command line names is as seen from there."""
    text = (RECIPES / "student_smoke.toml").read_text()
    assert text.count("[texts]") == 1
    (tmp_path / "mine.toml").write_text(
        text.replace("[texts]", '[texts]\nserved = "../some.jsonl"\nserved_share = 0.5')
    )
    mine = str(tmp_path / "mine.toml")
    assert load_recipe(mine).texts.served == tmp_path.parent / "some.jsonl"
    assert load_recipe(mine, {"texts.served": "some.jsonl"}).texts.served == Path("some.jsonl")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prune": {}}, "either prune.num_layers"),
        ({"prune": {"num_layers": 2, "kept_layers": [0]}}, "either prune.num_layers"),
        ({"prune": {"kept_layers": [1, 0]}}, "rising from 0"),
        ({"texts__served_share": 0.5}, "name the export"),
        ({"texts__general_share": 0.6, "texts__served_share": 0.5}, "more than all"),
        ({"texts__max_text_tokens": 500}, "raise micro_batch_tokens"),
        ({"domains": [{"name": "gcd"}, {"name": "gcd"}]}, "stands twice"),
        (
            {"precision": "bfloat16", "evaluation": {"num_items": 2, "sampler": "int8"}},
            "eight bits is made for float32",
        ),
        ({"teacher": {"url": "http://127.0.0.1:1"}, "kd__hidden_weight": 1.0}, "does not tell its states"),
        ({"gkd__beta": 1.0}, "less than 1"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, Any], said: str) -> None:
    """Each contradiction by its remedy."""
    with pytest.raises(ValueError, match=said):
        tiny_recipe(**changes)
