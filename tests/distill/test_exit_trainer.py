"""A run of early exits: each comes nearer to the whole, and stopped anywhere it goes on to the same exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import answered, domain_prompts
from distill.divergence import diverge, forward_kl
from distill.early_exit import Exiting
from distill.exit_recipe import ExitRecipe, load_recipe
from distill.exit_trainer import ExitTrainer
from distill.recipe import RECIPES
from distill.trainer import TEACHER, Step
from tests.distill.student import NAMES, workshop
from train.credit import by_heart
from train.model.policy import Line
from train.model.trainable import moving
from train.recipe import RecipeError
from train.run_directory import METRICS_NAME, RunDirectory
from train.steps import MAX_QUARANTINED, TrainingError

torch.set_num_threads(1)
EXITS = (1, 3)


class _StoppedError(Exception):
    pass


def _recipe(**changes: Any) -> ExitRecipe:
    """Exits of four layers, four steps; members of `kd` by name."""
    kd = {"num_steps": 4, "items_per_step": 6, "num_warmup_steps": 1, "learning_rate": 3e-3, **changes}
    tree = {
        "name": "tiny",
        "about": "for tests",
        "num_threads": 1,
        "exits": EXITS,
        "base": {"type": "scratch", "num_layers": 4, "width": 24},
        "domains": [{"name": name, "levels": [0], "max_answer_tokens": 6} for name in NAMES],
        "texts": {"general_share": 0.25, "max_general_tokens": 5, "max_text_tokens": 80},
        "micro_batch_tokens": 96,
        "checkpoint_every_steps": 2,
        "kd": kd,
        "evaluation": {"num_items": 2},
    }
    return ExitRecipe.model_validate(tree)


def _trained(
    recipe: ExitRecipe,
    out: Path,
    *,
    is_resumed: bool = False,
    told_after: int | None = None,
    falls_at: int | None = None,
) -> Exiting | None:
    """From nothing but the recipe and the directory; None where the run was told to stop. Evaluations count."""
    made = workshop()
    exiting = Exiting(made.base.model, recipe.exits)
    events: list[Step] = []

    def on_step(step: Step) -> None:
        events.append(step)
        if len(events) == falls_at:
            raise _StoppedError

    with RunDirectory(out, recipe, is_resumed=is_resumed) as run:
        trainer = ExitTrainer(
            recipe, made, exiting, run, on_step=on_step, is_stopping=lambda: len(events) == told_after
        )
        return exiting if trainer.run(is_resumed=is_resumed) else None


def _lines(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / METRICS_NAME).read_text().splitlines()]
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exiting, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("exits") / "whole"
    exiting = _trained(_recipe(), out)
    assert exiting is not None
    return exiting, _lines(out)


@pytest.mark.parametrize(
    "stopped",
    [
        {"told_after": 1},
        {"told_after": 4},
        {"falls_at": 4},
        {"told_after": 5},
        {"told_after": 6},
        {"falls_at": 7},
    ],
    ids=[
        "told at first",
        "told in steps",
        "fell in steps",
        "told before exits",
        "told between",
        "fell at last",
    ],
)
def test_stopped_and_gone_on_with(
    whole: tuple[Exiting, list[dict[str, Any]]], tmp_path: Path, stopped: dict[str, int]
) -> None:
    """To the bit the same weights and metrics, told to stop or fallen between checkpoints, in steps or evaluations."""
    out = tmp_path / "parts"
    if "falls_at" in stopped:
        with pytest.raises(_StoppedError):
            _trained(_recipe(), out, **stopped)
    else:
        assert _trained(_recipe(), out, **stopped) is None
    exiting = _trained(_recipe(), out, is_resumed=True)
    assert exiting is not None
    expected, lines = whole
    ours, theirs = moving(exiting), moving(expected)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
    assert _lines(out) == lines


def test_what_a_run_tells(whole: tuple[Exiting, list[dict[str, Any]]]) -> None:
    """The whole is asked once, each exit at the end; every step tells each exit's divergence, and their mean."""
    _, lines = whole
    assert [line["when"] for line in lines if line["phase"] == "evaluation"] == [TEACHER, "exit_1", "exit_3"]
    steps = [line for line in lines if line["phase"] == "kd"]
    assert [line["step"] for line in steps] == [1, 2, 3, 4]
    for line in steps:
        assert line["is_applied"]
        assert line["num_student_tokens"] == 0
        joint = (line["divergence_exit_1"] + line["divergence_exit_3"]) / 2
        assert line["divergence"] == pytest.approx(joint)


@torch.no_grad()
def _apart(exiting: Exiting) -> dict[int, float]:
    """Each exit's mean forward divergence from the whole on answers to prompts of another seed, nats."""
    made = workshop()
    prompts = domain_prompts(list(made.domains.values()), 12, seed=999)
    said = answered(prompts, made.teacher.sampler, made.base.codec, temperature=1.0, max_tokens=lambda _: 6)
    weight = exiting.trunk.lm_head.weight
    line = Line(tuple(by_heart("a", text.prompt, text.answer) for text in said), weight)
    scores, _ = made.teacher.read(line, ())
    return {
        depth: float(diverge(hidden, weight, scores, forward_kl).mean())
        for depth, hidden in exiting.states(line).items()
    }


def test_every_exit_comes_nearer(tmp_path: Path) -> None:
    """On texts that none has heard each exit is nearer to the whole than before, by a tenth at least."""
    before = _apart(Exiting(workshop().base.model, EXITS))
    exiting = _trained(_recipe(num_steps=120, items_per_step=16, learning_rate=2e-3), tmp_path / "run")
    assert exiting is not None
    after = _apart(exiting)
    assert all(after[depth] < 0.9 * before[depth] for depth in EXITS)


def test_gradients_that_are_not_finite_end_a_run(tmp_path: Path) -> None:
    """After a few such steps the run gives up, and says what to change."""
    made = workshop()
    exiting = Exiting(made.base.model, EXITS)
    with torch.no_grad():
        exiting.norms["1"].weight.fill_(float("nan"))
    recipe = _recipe(num_steps=MAX_QUARANTINED + 1)
    with RunDirectory(tmp_path / "run", recipe, is_resumed=False) as run:
        trainer = ExitTrainer(recipe, made, exiting, run)
        with pytest.raises(TrainingError, match=r"lower kd\.learning_rate"):
            trainer.run()


# a library of reasoning-gym's leaves a file open when all domains are looked at
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", sorted(RECIPES.glob("early_exit*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_load(path: Path) -> None:
    """Each, by its name, which it has inside too; and comes back from its own JSON."""
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem
    assert ExitRecipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert recipe.texts.served is None or recipe.texts.served.is_file()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"exits": [3, 1]}, "rising from 1"),
        ({"exits": [0, 1]}, "rising from 1"),
        ({"kd.student_share": 0.5}, "leave out kd.student_share"),
        ({"kd.hidden_weight": 1.0}, "prune.kept_layers takes them"),
        ({"evaluation.every_steps": 5}, "at the end alone"),
        ({"gkd.num_steps": 1}, "gkd"),
    ],
)
def test_what_cannot_be_is_said(setting: dict[str, object], said: str) -> None:
    """Each contradiction by its remedy."""
    with pytest.raises(RecipeError, match=said):
        load_recipe("early_exit_smoke", setting)
