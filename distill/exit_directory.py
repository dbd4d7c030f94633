"""What a run of early exits leaves at its end: each exit as a student's run of its own.

    exit-10/  recipe.json  origin.json  student/  student.json     the same for every exit asked

So `tierwise distill evaluate`, `line-up` and `publish` take an exit as they take a student: a checkpoint of the first
layers, and a difference to the base.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from distill.early_exit import Exiting
from distill.opened_base import OpenedBase
from distill.student_directory import keep_origin, write_student
from train.run_directory import RECIPE_NAME


def exit_directory(out: Path, depth: int) -> Path:
    """Where an exit of a run is."""
    return out / f"exit-{depth}"


def write_exits(out: Path, exiting: Exiting, base: OpenedBase) -> None:
    """Write every exit of a run that came to its end."""
    for depth in exiting.exits:
        directory = exit_directory(out, depth)
        directory.mkdir(exist_ok=True)
        shutil.copyfile(out / RECIPE_NAME, directory / RECIPE_NAME)
        keep_origin(directory, base)
        write_student(directory, exiting.standing_alone(depth), base, range(depth))
