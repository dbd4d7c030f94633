"""What would be published of a candidate: as what, which files, and what its manifest says before it was measured.

a run of `tierwise distill student`    a student, as its difference to the base
a draft head's directory               a draft, in the `speculators` format
any other checkpoint, a GGUF           a draft or a quantised model, as the caller says
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gguf import LlamaFileType
from pydantic import JsonValue, TypeAdapter

from distill.drafts.opened import is_head
from distill.gate import Candidacy
from distill.lineage import source_of
from distill.packing import Form, Packed, is_student_run, pack
from distill.quantization.known import Known, known_of
from serving.bringup.materialize import BASE_ROLE, BASE_SHA256
from serving.bringup.progress import Report
from serving.engines import student_delta
from serving.registry.artifact import Artifact
from serving.registry.manifest import Description, Kind, Parent
from serving.registry.store import Store
from train.checkpoints.directory import (
    CHAT_TEMPLATE,
    CONFIG,
    INDEX,
    TOKENIZER,
    TOKENIZER_CONFIG,
    read_config,
    weight_files,
)
from train.checkpoints.gguf_file import GgufFile
from train.publish import data_sha256
from train.recipe import DomainSettings
from train.run_directory import RunError

TEACHER_ROLE: Final = "teacher"
_ROLES: Final = {Candidacy.DRAFT: "target", Candidacy.QUANTISED: "quantised_from"}


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that may be published."""

    candidacy: Candidacy
    measured: str
    """What is examined, as `subject` opens it."""
    files: Mapping[str, Path]
    """Name in the artifact → file."""
    licence: str
    """Empty where nobody says."""
    said: Mapping[str, Any]
    """The description's other members."""
    known: Known | None = None
    """What `tierwise distill quantize` found of it."""

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(path.stat().st_size for path in self.files.values())

    def describe(self, metrics: Mapping[str, Mapping[str, float]]) -> Description:
        """With what was measured."""
        return Description.model_validate({**self.said, "licence": self.licence, "metrics": metrics})


def offer(
    candidate: Path,
    teacher: str,
    *,
    name: str,
    candidacy: Candidacy | None,
    form: Form,
    licence: str | None,
    store: Store,
    report: Report,
) -> Offer:
    """See what a candidate is, and write down what would be published of it.

    Args:
        candidate: a run, a directory or a file.
        teacher: the full model, as `subject` opens it; parent where the registry has it.
        name: of the artifact.
        candidacy: as what; found out where None.
        form: of a student.
        licence: the base's, or else the teacher's, where None.
        store: the registry; nothing of the candidate is published.
        report: hears what happens.

    Raises:
        RunError: it is not there, or has to be said as what it is offered.
        CheckpointError, RegistryError, BringupError: it is damaged, or its base is not there.
    """
    behind = source_of(teacher, store, report)
    if is_student_run(candidate):
        return _student(pack(candidate, form, store, report, licence=licence), behind, name, licence)
    if not candidate.exists():
        raise RunError(f"there is no {candidate}; name a run, a checkpoint's directory or a GGUF file")
    head = candidate.is_dir() and is_head(str(candidate))
    candidacy = Candidacy.DRAFT if head else candidacy
    if candidacy is None or candidacy is Candidacy.STUDENT:
        raise RunError(f"{candidate} is no student's run; say what it is: --as draft, or --as quantised")
    kind: Kind = "draft" if candidacy is Candidacy.DRAFT else (behind.manifest.kind if behind else "policy")
    parents = (_parent(behind, _ROLES[candidacy]),) if behind else ()
    files, form_said = _files_of(candidate)
    known = known_of(candidate) if candidacy is Candidacy.QUANTISED else None
    return Offer(
        candidacy,
        str(candidate.absolute()),
        files,
        licence or (behind.manifest.licence if behind else ""),
        {
            "kind": kind,
            "name": name,
            "parents": parents,
            "recipe": {"step": "draft"} if candidacy is Candidacy.DRAFT else _quantisation(candidate, known),
            "tokenizer_sha256": behind.manifest.tokenizer_sha256 if behind else None,
            **form_said,
        },
        known,
    )


def _student(packed: Packed, behind: Artifact | None, name: str, licence: str | None) -> Offer:
    base, form = packed.base, packed.form
    parents = [_parent(base, BASE_ROLE)]
    if behind is not None and behind.reference != base.reference:
        parents.append(_parent(behind, TEACHER_ROLE))
    source = str((behind or base).reference)
    recipe: dict[str, JsonValue] = {
        "step": "distill",
        "recipe": _portable(packed.recipe, source),
        "kept_layers": list(packed.about.kept_layers),
        "teacher_sha256": packed.about.teacher_sha256,
        BASE_SHA256: base.manifest.files[0].sha256,
        "rank": form.rank,
    }
    domains = TypeAdapter(list[DomainSettings]).validate_python(packed.recipe.get("domains", []))
    return Offer(
        Candidacy.STUDENT,
        str(packed.served),
        {path.name: path for path in sorted(packed.artifact.iterdir())},
        licence or base.manifest.licence,
        {
            "kind": "student",
            "name": name,
            "parents": tuple(parents),
            "recipe": recipe,
            "data_sha256": data_sha256(domains),
            "tokenizer_sha256": base.manifest.tokenizer_sha256,
            "format": student_delta.FORMAT,
            "quantization": form.difference if form.rank is None else "F16",
        },
    )


def _quantisation(candidate: Path, known: Known | None) -> dict[str, JsonValue]:
    """How it was quantised, where that is known.

    Raises:
        RunError: the report says that it missed what was asked of it then.
    """
    if known is None:
        return {"step": "quantise"}
    line = known.line
    if line.reasons:
        raise RunError(f"{candidate} did not pass when it was quantised: {'; '.join(line.reasons)}")
    return {
        "step": "quantise",
        "type": line.type,
        "divergence": line.divergence,
        "greedy_share": line.greedy_share,
    }


def _portable(recipe: Mapping[str, Any], source: str) -> dict[str, Any]:
    """A run's recipe without paths of the machine that it ran on."""
    found = {**recipe, "base": {"type": "artifact", "source": source}}
    texts = recipe.get("texts")
    if isinstance(texts, dict) and texts.get("served"):
        found["texts"] = {**texts, "served": Path(texts["served"]).name}
    return found


def _files_of(candidate: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """What of a checkpoint is published, and the description's `format` and `quantization`."""
    if candidate.is_file():
        kind = LlamaFileType(int(GgufFile(candidate).need("general.file_type"))).name
        return {candidate.name: candidate}, {
            "format": "gguf",
            "quantization": kind.removeprefix("MOSTLY_").removeprefix("ALL_"),
        }
    config = read_config(candidate)
    names = (CONFIG, INDEX, TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE)
    paths = [*weight_files(candidate), *(candidate / each for each in names if (candidate / each).exists())]
    files = {path.name: path for path in paths}
    if "speculators_model_type" in config:
        return files, {"format": "speculators"}
    quantized = config.get("quantization_config")
    return files, {"format": str(quantized["quant_method"]) if quantized else "safetensors"}


def _parent(artifact: Artifact, role: str) -> Parent:
    return Parent(name=artifact.manifest.name, version=artifact.manifest.version, role=role)
