"""What a student's run leaves beside its checkpoints: what it came from, and at its end the student.

origin.json      the base, and the hash of its weights; a run goes on with the same or not at all
pruning.json     which layers stay, and what the others' going cost (`cut`)
student/         the student as Hugging Face lays a checkpoint out
student.json     {"kept_layers", "teacher", "teacher_sha256", "base"}: what it is, for whoever publishes it
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from distill.opened_base import OpenedBase
from distill.pruning.pruned import write_checkpoint
from train.model.llama import Llama
from train.model.weights import save_llama
from train.run_directory import RunError

ORIGIN_NAME: Final = "origin.json"
STUDENT_NAME: Final = "student"
ABOUT_NAME: Final = "student.json"


def keep_origin(out: Path, base: OpenedBase) -> None:
    """Write down what the run is begun with, or see that it is the same as then.

    Raises:
        RunError: the base has other weights than when the run was begun: an alias was moved, a run went on.
    """
    path, now = out / ORIGIN_NAME, base.origin()
    if not path.exists():
        _write(path, now)
        return
    then = json.loads(path.read_text(encoding="utf-8"))
    if then != now:
        raise RunError(
            f"{out} was begun with {then['teacher']} (weights {then['teacher_sha256'][:12]}), and the recipe's base is "
            f"{now['teacher']} ({now['teacher_sha256'][:12]}) by now; name that version, or begin anew"
        )


def write_student(out: Path, student: Llama, base: OpenedBase, kept_layers: Sequence[int]) -> None:
    """Write the student of a run that came to its end, and last what it is.

    A policy of characters has no tokenizer that anyone else could load; of it there are weights and shape alone.
    """
    directory = out / STUDENT_NAME
    if base.start is None:
        directory.mkdir(exist_ok=True)
        save_llama(student, directory)
    else:
        write_checkpoint(student, base.start, directory)
    origin = json.loads((out / ORIGIN_NAME).read_text(encoding="utf-8"))
    _write(out / ABOUT_NAME, {"kept_layers": list(kept_layers), **origin})


def _write(path: Path, members: dict[str, Any]) -> None:
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(members, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
