"""A student's run as what is published of it, and as what serving makes of that: both written, before either is judged.

    RUN/packed/artifact/student.delta    what the registry gets
    RUN/packed/served.gguf               what an engine loads, to the byte (`serving.bringup.materialize`)

So the gate measures what will be served, its quantisations included, and `tierwise distill evaluate` can do so apart.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from distill.student_delta import write
from distill.student_directory import ABOUT_NAME, STUDENT_NAME
from serving.bringup.packaged import chat_template_of
from serving.bringup.progress import Report
from serving.engines.requantize import open_model, requantize
from serving.engines.student_delta import FILE_NAME, StudentDelta
from serving.registry.artifact import Artifact
from serving.registry.store import Store
from train.checkpoints.gguf_file import GgufFile
from train.model.weights import load_llama
from train.origin import gguf_base
from train.run_directory import RECIPE_NAME, RunError

PACKED: Final = "packed"
SERVED: Final = "served.gguf"


class AboutStudent(BaseModel):
    """`student.json` of a run."""

    kept_layers: tuple[int, ...]
    teacher: str
    """A reference, or a path of the machine that it was trained on."""
    teacher_sha256: str
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """In which a student is published, and served."""

    rank: int | None = None
    """Of matrices' differences; None leaves them whole."""
    difference: str = "Q4_0"
    """Quantisation of differences that are whole."""
    served: str = "Q4_0"
    """Quantisation of what an engine loads."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A student that may be published."""

    about: AboutStudent
    recipe: dict[str, Any]
    """Of its run."""
    base: Artifact
    form: Form
    artifact: Path
    """A directory with what the registry gets."""
    served: Path
    """A GGUF."""

    @property
    def size_bytes(self) -> int:
        """Of what the registry gets."""
        return sum(file.stat().st_size for file in self.artifact.iterdir())


def is_student_run(path: Path) -> bool:
    """Whether a directory is a run that has come to a student."""
    return (path / ABOUT_NAME).exists()


def pack(run: Path, form: Form, store: Store, report: Report, *, licence: str | None = None) -> Packed:
    """Write both; what an earlier call wrote is replaced.

    Args:
        run: of `tierwise distill student`, ended.
        form: how.
        store: has the base; nothing of the student is published.
        report: hears what happens.
        licence: of a base that is files of one's own and does not say.

    Raises:
        RunError: the run has no student yet, or one of random weights.
        CheckpointError, RegistryError, BringupError: it is damaged, or its base is not there.
    """
    about, recipe = _read(run)
    if about.base == "scratch":
        raise RunError(f"{run} grew from random weights, which nobody else has a base of; nothing to publish")
    base = gguf_base(about.base, store, report, licence=licence)
    out = run / PACKED
    shutil.rmtree(out, ignore_errors=True)
    artifact = out / "artifact"
    artifact.mkdir(parents=True)
    size_bytes = write(
        artifact,
        load_llama(run / STUDENT_NAME),
        GgufFile(base.weights),
        about.kept_layers,
        rank=form.rank,
        quantization=form.difference,
    )
    report.say(f"{run.name}: {size_bytes / 1e6:.1f} MB beside its base")
    source = open_model(base.weights)
    with report.track(f"making it whole in {form.served}", len(source.reader.tensors), "tensors") as done:
        requantize(
            source,
            out / SERVED,
            quantization=form.served,
            chat_template=chat_template_of(base.manifest.files[0].sha256),
            delta=StudentDelta(artifact / FILE_NAME),
            on_tensor=lambda index, _: done(index),
        )
    return Packed(about, recipe, base, form, artifact, out / SERVED)


def _read(run: Path) -> tuple[AboutStudent, dict[str, Any]]:
    try:
        about = AboutStudent.model_validate_json((run / ABOUT_NAME).read_bytes())
        recipe: dict[str, Any] = json.loads((run / RECIPE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(
            f"{run} has no {Path(error.filename).name}; let the run come to its end first"
        ) from None
    except (ValidationError, ValueError) as error:
        raise RunError(f"{run / ABOUT_NAME} is damaged ({error}); let the run write it again") from None
    return about, recipe
