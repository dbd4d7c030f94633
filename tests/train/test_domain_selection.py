"""Many domains in one line of a recipe: audited ones of some families, with the levels that fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.domain_selection import AuditedSettings, selected
from train.recipe import RecipeError, load_recipe

DOCUMENTS = {"families": ["documents"], "levels": [0, 3, 9], "max_prompt_characters": 3000}


def test_levels_that_are_there_and_fit() -> None:
    """Of documents: none with tools, no level that a domain lacks or that is too long, no excluded name."""
    settings = AuditedSettings.model_validate({**DOCUMENTS, "excluded": ["document_needle"]})
    found = {entry["name"]: entry["levels"] for entry in selected(settings)}
    assert found["document_keys"] == [0]
    assert found["terse_needle"] == [0, 3]
    assert not {"document_search", "document_needle"} & found.keys()


def test_a_table_of_domains_is_a_list_once_it_is_loaded(tmp_path: Path) -> None:
    """So that a run keeps names; a family that there is not is refused by the recipe's name."""
    text = 'name = "x"\nabout = "x"\n[base]\ntype = "artifact"\n[domains]\n'
    path = tmp_path / "x.toml"
    path.write_text(text + 'families = ["documents"]\nlevels = [0]\n')
    recipe = load_recipe(str(path))
    assert {domain.name for domain in recipe.domains} >= {"document_keys", "document_hops"}
    assert all(domain.levels == (0,) for domain in recipe.domains)
    path.write_text(text + 'families = ["poetry"]\n')
    with pytest.raises(RecipeError, match="families"):
        load_recipe(str(path))


@pytest.mark.parametrize("name", ["context_cpu", "context_gpu"])
def test_recipes_of_longer_contexts_load(name: str) -> None:
    """Their stages grow up to what their names promise."""
    recipe = load_recipe(name)
    assert recipe.context is not None
    assert recipe.context.max_tokens == {"context_cpu": 264, "context_gpu": 32_768}[name]
    assert recipe.context.stages[-1].from_step < recipe.sft.num_steps
