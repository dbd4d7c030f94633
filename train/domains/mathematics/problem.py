"""Mathematical problems as tasks: an answer, and the form in which it is to be given."""

from __future__ import annotations

import random
from collections.abc import Callable

from train.domains.base import Family, Item, Verdict
from train.domains.mathematics.forms import FORMS, Form
from train.domains.task import Task, TaskDomain
from train.transcript import Transcript
from train.verifiers.answers import final_answer, judged


def problem(prompt: str, answer: str, form: Form) -> Task:
    """A problem whose answer has a form."""
    return Task(prompt, answer, {"form": form.value})


def mathematics(name: str, description: str, draw: Callable[[random.Random, int], Task]) -> TaskDomain:
    """A domain of such problems."""
    return TaskDomain(name, description, draw, judge, Family.MATHEMATICS)


def judge(item: Item, transcript: Transcript) -> Verdict:
    """Right where the last line is equal to the answer and has the form that was asked for."""
    said = final_answer(transcript.answer)
    form = Form(str(item.data["form"]))
    is_right = bool(said) and FORMS[form](said, item.answer)
    return judged(is_right, "" if is_right else f"{said[:60]!r} is not the answer: wanted is {form.wanted}")
