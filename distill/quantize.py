"""A model in several types of fewer bits: each written, read back, measured, and left behind only where it passes.

What is measured is what was written: files are read again, and the numbers that they stand for are computed with in
single precision. Where a type rounds activations too (w8a8), these are rounded here as the engine will. llama.cpp's
products with quantised weights round activations to eight bits as well, which is in none of these figures but speed;
it is the same for all GGUF types. The inputs by which w4a16 weighs errors are those of the texts that it is measured
on, prompts for the most part: a figure on texts of another kind may be a little worse.

Until a file has passed it lies in a directory that is deleted; an interrupted run leaves nothing that looks good.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from distill.calibration import CalibrationText
from distill.hashes import hash_of_path
from distill.quantization.activations import linear_maps, round_activations
from distill.quantization.bar import Bar
from distill.quantization.exam import Exam, Sat
from distill.quantization.files import Files, size_bytes
from distill.quantization.importance import mean_squares
from distill.quantization.report import WHOLE, Quantised, Report, Speed
from distill.quantization.types import GgufType, IntegerType, QuantizedType
from train.agreement import Agreement, agreement
from train.model.linear import FloatLinear
from train.model.llama import Llama
from train.model.weights import state_of

Speeds = Callable[[Sequence[Path]], Mapping[Path, Speed]]
"""Models → how fast those are that there is an engine for (`engine_speed`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is quantised, and what it is measured on."""

    name: str
    """Files are called after it."""
    model: Llama
    start: Path
    """The checkpoint that it was loaded from."""
    texts: Sequence[CalibrationText]
    sha256: str
    """Of its weights, as it was named (`subject.weights_sha256`)."""


def quantize(
    subject: Subject,
    kinds: Sequence[QuantizedType],
    out: Path,
    *,
    bar: Bar,
    group_size: int | None = None,
    exam: Exam | None = None,
    speeds: Speeds = lambda models: {},
    seed: int = 0,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Report:
    """Write each type into `out`, unless it does not pass.

    Args:
        subject: the model, and texts.
        kinds: what it is quantised to.
        out: a directory; made where it is missing.
        bar: what passes.
        group_size: weights to a scale, of types with groups; the largest that divides all rows where None.
        exam: of verified scores, where they are asked for.
        speeds: measures all files at once.
        seed: of intervals.
        on_stage: told what is done next.

    Raises:
        GroupSizeError, RequantizeError: the model's rows do not divide as a type needs them.
        EngineError: speed could not be measured.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".unproven-") as scratch:
        is_searched = any(isinstance(kind, IntegerType) and kind.is_grouped for kind in kinds)
        files = Files(
            subject.name,
            subject.model,
            subject.start,
            Path(scratch),
            group_size=group_size,
            importance=mean_squares(subject.model, subject.texts) if is_searched else {},
        )
        for kind in kinds:  # all that may be refused comes before hours of measuring
            on_stage(f"writing {kind.name}")
            files.write(kind)
        whole = None
        if exam is not None:
            on_stage(f"asking the {WHOLE} model")
            whole = exam.sit(subject.model)
        measured = {}
        for kind in kinds:
            on_stage(f"measuring {kind.name}")
            measured[kind.name] = _measured(subject, kind, files.weights(kind), exam)
        on_stage("timing engines")
        wholes = files.wholes()
        timed = speeds([*wholes, *files.paths()])
        types = []
        for kind in kinds:
            agreements, sat = measured[kind.name]
            found = sat.kept_of(whole, seed=seed) if sat and whole else None
            path = files.path(kind)
            types.append(
                Quantised(
                    type=kind.name,
                    file=path.name,
                    sha256=hash_of_path(path),
                    size_bytes=size_bytes(path),
                    num_weights=files.num_weights(kind),
                    agreements=agreements,
                    evaluation=sat.evaluation if sat else None,
                    kept=found,
                    speed=timed.get(path),
                    reasons=bar.reasons(agreements, found),
                )
            )
        for each in types:
            if not each.reasons:
                shutil.move(Path(scratch) / each.file, out / each.file)
    parameters = state_of(subject.model).values()
    return Report(
        sha256=subject.sha256,
        num_parameters=sum(weight.numel() for weight in parameters),
        size_bytes=sum(4 * weight.numel() for weight in parameters),
        evaluation=whole.evaluation if whole else None,
        speeds=tuple(timed[path] for path in wholes if path in timed),
        types=tuple(types),
    )


def with_weights(model: Llama, weights: Mapping[str, Tensor]) -> Llama:
    """A model of the same shape with other weights, as a checkpoint names them; they are held, not copied.

    Raises:
        RuntimeError: they are not those of this shape.
    """
    with torch.device("meta"):
        made = Llama(model.shape)
    named = dict(weights)
    if model.shape.is_tied:
        named["lm_head.weight"] = named.get("model.embed_tokens.weight", torch.empty(0))
    made.load_state_dict(named, assign=True)
    if model.shape.is_tied:
        made.lm_head.weight = made.model.embed_tokens.weight
    return made.train(model.training)


def _measured(
    subject: Subject, kind: QuantizedType, weights: Mapping[str, Tensor], exam: Exam | None
) -> tuple[dict[str, Agreement], Sat | None]:
    model = with_weights(subject.model, weights)
    is_rounded = not isinstance(kind, GgufType) and kind.rounds_activations
    make_linear = linear_maps(model.shape.vocab_size) if is_rounded else FloatLinear
    sat = exam.sit(model, make_linear) if exam else None
    if is_rounded:
        round_activations(model)
    return agreements(subject.model, model, subject.texts), sat


def agreements(whole: Llama, other: Llama, texts: Sequence[CalibrationText]) -> dict[str, Agreement]:
    """Of two models on the texts of each domain."""
    found = {}
    for domain in dict.fromkeys(text.domain for text in texts):
        of_domain = ((text.prompt, text.answer) for text in texts if text.domain == domain)
        apart = agreement(whole, other, of_domain)
        assert apart is not None
        found[domain] = apart
    return found
