"""Every ablation at a tiny scale: arms start from the same weights, differ in what they say, and are measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from rich.console import Console

from train.ablations import ABLATIONS, run_ablation, spread
from train.commands.ablate import NAMES, keep, table_of
from train.domains.catalog import get
from train.parts import Parts
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.trainer import Step
from train.verifiers.pool import Pool

TINY: dict[str, object] = {
    "base.width": 32,
    "base.num_layers": 1,
    "base.num_heads": 2,
    "sft.num_steps": 1,
    "sft.items_per_step": 8,
    "rl.num_steps": 2,
    "rl.groups_per_step": 2,
    "rl.rollouts_per_group": 2,
    "evaluation": {"num_items": 3, "num_samples": 1},
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1) as pool:
        yield pool


def few(name: str) -> dict[str, object]:
    """The ablation's own domains, two of them, one level."""
    shipped = load_recipe(ABLATIONS[name].recipe, overrides=dict(ABLATIONS[name].shared))
    return {**TINY, "domains": [{"name": domain.name, "levels": [0]} for domain in shipped.domains[:2]]}


def run(
    name: str, path: Path, pool: Pool, steps: list[tuple[str, int, Step]]
) -> dict[str, list[dict[str, float]]]:
    @contextmanager
    def assembled(recipe: Recipe) -> Iterator[Parts]:
        policy = build_policy(recipe, Path, num_slots=16)
        domains = {domain.name: get(domain.name) for domain in recipe.domains}
        yield Parts(policy.model, policy.sampler, policy.codec, domains, pool)

    return run_ablation(
        ABLATIONS[name],
        path,
        [0],
        assembled,
        overrides=few(name),
        on_step=lambda arm, seed, step: steps.append((arm, seed, step)),
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_runs(name: str, tmp_path: Path, pool: Pool) -> None:
    """Two steps an arm; every arm starts where the others do, and is measured in the same terms."""
    steps: list[tuple[str, int, Step]] = []
    found = run(name, tmp_path, pool, steps)
    arms = list(ABLATIONS[name].arms)
    assert list(found) == arms
    assert len({frozenset(of_arm[0]) for of_arm in found.values()}) == 1
    assert len({of_arm[0]["greedy before"] for of_arm in found.values()}) == 1
    trained = [arm for arm, _, step in steps if step.phase == "rl" and "evaluation" not in step.metrics]
    assert trained == [arm for arm in arms for _ in range(2)]
    again: list[tuple[str, int, Step]] = []
    assert run(name, tmp_path, pool, again) == found
    assert not again


def test_arms_are_what_is_registered() -> None:
    """The command's names are the ablations, and every arm is a recipe that can be."""
    assert set(NAMES) == set(ABLATIONS)
    for ablation in ABLATIONS.values():
        made = [
            load_recipe(ablation.recipe, overrides={**ablation.shared, **different})
            for different in ablation.arms.values()
        ]
        assert len({recipe.sha256 for recipe in made}) == len(made)


def test_table_and_figures(tmp_path: Path) -> None:
    """Mean and deviation over seeds, by hand; the JSON has every figure."""
    found = {"off": [{"greedy": 0.2}, {"greedy": 0.4}], "on": [{"greedy": 0.5}, {"greedy": 0.5}]}
    assert spread([0.2, 0.4]) == pytest.approx((0.3, 0.141421), abs=1e-6)
    assert spread([0.7]) == (0.7, 0.0)
    console = Console(width=80, record=True)
    console.print(table_of("t", found))
    assert "0.300 ± 0.141" in console.export_text()
    keep(tmp_path / "results" / "x.json", "x", "about", {"rl.num_steps": 2}, found)
    kept = json.loads((tmp_path / "results" / "x.json").read_text())
    assert kept["arms"] == found
    assert kept["overrides"] == {"rl.num_steps": 2}
