"""What a step hears: whom it should in the share that it should, never what is held out, and the same after a stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from distill.lessons import Lessons, Speakers
from distill.recipe import StudentRecipe
from distill.served_traffic import SERVED
from distill.student_loss import Origin
from distill.trainer import held_out_items
from tests.distill.student import tiny_recipe, workshop
from train.rollouts.in_process import InProcessSampler

torch.set_num_threads(1)


def _lessons(recipe: StudentRecipe, phase: str = "gkd") -> Lessons:
    made = workshop()
    without = {item.prompt for some in held_out_items(recipe, made.domains).values() for item in some}
    speakers = Speakers(made.base.codec, made.teacher.sampler, InProcessSampler(made.base.model))
    settings = recipe.kd if phase == "kd" else recipe.gkd
    return Lessons(recipe, phase, settings, made.domains, speakers, without)


@pytest.mark.parametrize(("share", "reference"), [(1.0, 0.5), (0.0, 1.0), (0.0, 0.0)])
def test_who_answers(share: float, reference: float) -> None:
    """With λ 1 the student alone; with λ 0 references and teacher, as their share says; general prompts have none."""
    recipe = tiny_recipe(gkd__student_share=share, gkd__reference_share=reference, gkd__items_per_step=8)
    lessons = _lessons(recipe)
    origins = [group.domain for group in lessons.lesson(0).groups]
    assert len(origins) == 8
    if share:
        assert set(origins) == {Origin.STUDENT}
    else:
        assert origins.count(Origin.REFERENCE) == (6 if reference else 0)
        assert origins.count(Origin.TEACHER) == (2 if reference else 8)


def test_what_is_held_out_is_never_heard(tmp_path: Path) -> None:
    """Not as an item, though most sums of single digits are held out, and not as served traffic."""
    recipe = tiny_recipe(
        evaluation__num_items=60,
        kd__items_per_step=40,
        texts__served_share=0.1,
        texts__served=tmp_path / "served.jsonl",
    )
    held_out = [item for some in held_out_items(recipe, workshop().domains).values() for item in some]
    texts = ["what now?", "and then?", "so?", "why?", *(item.prompt for item in held_out)]
    lines = [json.dumps({"endpoint": "chat", "status": 200, "prompt": text}) for text in texts]
    (tmp_path / "served.jsonl").write_text("\n".join(lines))
    lessons = _lessons(recipe, "kd")
    heard = [prompt for number in range(5) for prompt in lessons.prompts(number)]
    assert {prompt.text for prompt in heard if prompt.domain == SERVED} == set(texts[:4])
    assert not {prompt.text for prompt in heard} & {item.prompt for item in held_out}
    assert sum(prompt.item is not None for prompt in heard) > 100


def test_many_answers_to_a_prompt() -> None:
    """Each by a lot and a draw of its own; neighbours share their prompt, which a line computes once."""
    lesson = _lessons(tiny_recipe(gkd__answers_per_item=4, gkd__items_per_step=3)).lesson(0)
    assert len(lesson.groups) == 12
    assert lesson.num_left_out == 0
    prompts = [group.prompt for group in lesson.groups]
    assert prompts == sorted(prompts)
    assert len(set(prompts)) == 3
    own = [group.credits[0].token_ids for group in lesson.groups if group.domain != Origin.REFERENCE]
    assert len(set(own)) > len(own) // 2


def test_a_stop_changes_nothing() -> None:
    """From what a checkpoint keeps the next lesson is the one that it would have been."""
    recipe = tiny_recipe(gkd__items_per_step=5)
    lessons = _lessons(recipe)
    for number in range(2):
        lessons.lesson(number)
    kept = json.loads(json.dumps(lessons.plain()))
    again = _lessons(recipe)
    again.restore(kept)
    assert again.lesson(2) == lessons.lesson(2)


def test_long_texts_are_left_out() -> None:
    """A prompt whose answer may go beyond the bound is not asked, and is counted."""
    lessons = _lessons(tiny_recipe(texts__max_text_tokens=24, micro_batch_tokens=64))
    lesson = lessons.lesson(0)
    assert lesson.num_left_out == 6 - len(lesson.groups) > 0
    assert all(group.num_computed <= 24 for group in lesson.groups)
