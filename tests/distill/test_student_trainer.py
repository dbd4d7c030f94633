"""A student's run: it comes nearer to its teacher, and stopped anywhere it goes on to the same student."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import answered, domain_prompts
from distill.divergence import diverge, forward_kl
from distill.recipe import StudentRecipe
from distill.trainer import TEACHER, Step, StudentTrainer
from distill.whole_teacher import WholeTeacher, states_behind
from tests.distill.student import tiny_recipe, workshop
from train.credit import by_heart
from train.model.llama import Llama
from train.model.policy import Line
from train.model.weights import state_of
from train.run_directory import METRICS_NAME, RunDirectory, RunError
from train.steps import MAX_QUARANTINED, TrainingError

torch.set_num_threads(1)


class _StoppedError(Exception):
    pass


def _trained(
    recipe: StudentRecipe,
    out: Path,
    *,
    is_resumed: bool = False,
    told_after: int | None = None,
    falls_at: int | None = None,
) -> Llama | None:
    """The student, from nothing but the recipe and the directory; None where the run was told to stop."""
    made = workshop()
    assert recipe.prune.kept_layers
    parts = made.parts(recipe.prune.kept_layers)
    steps: list[Step] = []

    def on_step(step: Step) -> None:
        if "evaluation" not in step.metrics:
            steps.append(step)
            if len(steps) == falls_at:
                raise _StoppedError

    with RunDirectory(out, recipe, is_resumed=is_resumed) as run:
        trainer = StudentTrainer(
            recipe, parts, run, on_step=on_step, is_stopping=lambda: len(steps) == told_after
        )
        return parts.student if trainer.run(is_resumed=is_resumed) else None


def _lines(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / METRICS_NAME).read_text().splitlines()]
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Llama, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("student") / "whole"
    student = _trained(tiny_recipe(), out)
    assert student is not None
    return student, _lines(out)


@pytest.mark.parametrize(
    "stopped",
    [{"told_after": 1}, {"falls_at": 3}, {"told_after": 3}, {"told_after": 5}, {"falls_at": 6}],
    ids=["told in kd", "fell in kd", "told between", "told in gkd", "fell in gkd"],
)
def test_stopped_and_gone_on_with(
    whole: tuple[Llama, list[dict[str, Any]]], tmp_path: Path, stopped: dict[str, int]
) -> None:
    """To the bit the same weights and metrics, told to stop or fallen between checkpoints, in either phase."""
    out = tmp_path / "parts"
    if "falls_at" in stopped:
        with pytest.raises(_StoppedError):
            _trained(tiny_recipe(), out, **stopped)
    else:
        assert _trained(tiny_recipe(), out, **stopped) is None
    student = _trained(tiny_recipe(), out, is_resumed=True)
    assert student is not None
    expected, lines = whole
    assert state_of(student).keys() == state_of(expected).keys()
    for name, tensor in state_of(expected).items():
        assert torch.equal(tensor, state_of(student)[name]), name
    assert _lines(out) == lines


def test_what_a_run_tells(whole: tuple[Llama, list[dict[str, Any]]], tmp_path: Path) -> None:
    """The teacher is asked once, the student before, between and after; each phase hears whom it should."""
    _, lines = whole
    assert [line["when"] for line in lines if line["phase"] == "evaluation"] == [
        *(TEACHER, "cut"),
        *("after_kd", "after_gkd"),
    ]
    kd, gkd = ([line for line in lines if line["phase"] == phase] for phase in ("kd", "gkd"))
    assert [line["step"] for line in kd] == [line["step"] for line in gkd] == [1, 2, 3]
    assert not any(line["num_student_tokens"] for line in kd)
    assert any(line["num_student_tokens"] for line in gkd)
    assert all(line["is_applied"] for line in kd + gkd)
    with pytest.raises(RunError, match="no run to resume"):
        RunDirectory(tmp_path / "none", tiny_recipe(), is_resumed=True)


def test_embeddings_stay(whole: tuple[Llama, list[dict[str, Any]]]) -> None:
    """Of `layers` all weights of layers and the last norm move, and the tied embedding is the base's."""
    student, _ = whole
    before = state_of(workshop().parts((0, 1, 3)).student)
    moved = {name for name, tensor in state_of(student).items() if not torch.equal(tensor, before[name])}
    assert moved == set(before) - {"model.embed_tokens.weight"}
    assert student.lm_head.weight is student.model.embed_tokens.weight


@torch.no_grad()
def _apart(student: Llama) -> float:
    """Mean forward divergence from the teacher on answers to prompts of another seed, nats."""
    made = workshop()
    prompts = domain_prompts(list(made.domains.values()), 12, seed=999)
    said = answered(prompts, made.teacher.sampler, made.base.codec, temperature=1.0, max_tokens=lambda _: 6)
    line = Line(tuple(by_heart("a", text.prompt, text.answer) for text in said), student.lm_head.weight)
    scores, _ = made.teacher.read(line, ())
    hidden, _ = states_behind(student, line, ())
    return float(diverge(hidden, student.lm_head.weight, scores, forward_kl).mean())


def test_distilling_brings_nearer(tmp_path: Path) -> None:
    """On texts that it never heard, a student is nearer to its teacher than when it was cut, by a tenth at least."""
    recipe = tiny_recipe(kd__num_steps=40, kd__items_per_step=16, kd__learning_rate=1e-2, gkd__num_steps=0)
    cut = workshop().parts((0, 1, 3)).student
    student = _trained(recipe, tmp_path / "run")
    assert student is not None
    assert _apart(student) < 0.9 * _apart(cut)


def test_distilling_in_bfloat16_brings_nearer_too(tmp_path: Path) -> None:
    """Products alone are in bfloat16: the student's weights are in single precision, and as near as they come else."""
    recipe = tiny_recipe(kd__num_steps=40, kd__items_per_step=16, kd__learning_rate=1e-2, gkd__num_steps=0)
    made = workshop()
    made.base.model.precision = torch.bfloat16
    made = replace(made, teacher=WholeTeacher(made.base.model))
    parts = made.parts((0, 1, 3))
    with RunDirectory(tmp_path / "run", recipe, is_resumed=False) as run:
        assert StudentTrainer(recipe, parts, run).run()
    assert {weight.dtype for weight in parts.student.parameters()} == {torch.float32}
    parts.student.precision = None
    assert _apart(parts.student) < 0.9 * _apart(workshop().parts((0, 1, 3)).student)


def test_gradients_that_are_not_finite_end_a_run(tmp_path: Path) -> None:
    """The weights stay as they were, and after a few such steps the run gives up."""
    recipe = tiny_recipe(kd__num_steps=9)
    parts = workshop().parts((0, 1, 3))
    with torch.no_grad():
        parts.student.model.norm.weight.fill_(float("nan"))
    before = {name: tensor.clone() for name, tensor in state_of(parts.student).items()}
    with RunDirectory(tmp_path / "run", recipe, is_resumed=False) as run:
        trainer = StudentTrainer(recipe, parts, run)
        for _ in range(MAX_QUARANTINED - 1):
            trainer._step()
        with pytest.raises(TrainingError, match=r"lower kd\.learning_rate"):
            trainer._step()
    assert all(
        torch.equal(tensor, before[name])
        for name, tensor in state_of(parts.student).items()
        if name != "model.norm.weight"
    )
