"""Step times of a target and its draft, from the engine inside or from llama.cpp, for `cost_model`."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from distill.cost_model import StepTimes, widths
from distill.drafts.engine_steps import engine_steps
from distill.drafts.opened import NGRAM, is_head, open_head
from distill.drafts.steps import head_steps, lookup_s, model_steps, timed_in_turn
from serving.bringup.progress import Report
from serving.engines.base import EngineError
from serving.engines.machine import this_machine
from serving.registry.reference import PathReference, parse
from serving.registry.store import Store
from train.base import PACKAGED, is_gguf, locate, packaged
from train.model.weights import load_llama


@dataclass(frozen=True, slots=True)
class Asked:
    """What the cost model will want to know."""

    nums_drafts: Sequence[int]
    nums_streams: Sequence[int]
    threads: int | None = None


def measure_in_process(
    target: str,
    draft: str,
    asked: Asked,
    store: Store,
    report: Report,
) -> StepTimes:
    """Times of this process's sampler, in single precision.

    Raises:
        CheckpointError, RegistryError, BringupError: what is named is not there.
        UnsupportedModelError: another family than Llama's.
    """
    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    model = load_llama(locate(target, store, report))
    steps = {("target", width): step for width, step in model_steps(model, _widths(asked)).items()}
    if draft != NGRAM:
        drafting = (
            head_steps(open_head(draft, model), model, asked.nums_streams)
            if is_head(draft)
            else model_steps(load_llama(locate(draft, store, report)), asked.nums_streams)
        )
        steps |= {("draft", width): step for width, step in drafting.items()}
    found = timed_in_turn(steps)
    of_target, of_draft = (
        {width: seconds for (whose, width), seconds in found.items() if whose == each}
        for each in ("target", "draft")
    )
    return StepTimes(
        engine=f"in process, float32, {torch.get_num_threads()} threads, {_machine()}",
        target_s=of_target,
        draft_s=of_draft or _lookup_s(asked),
    )


def measure_in_engine(
    target: str,
    draft: str,
    asked: Asked,
    store: Store,
    report: Report,
) -> StepTimes:
    """Times of llama.cpp as this gateway runs it; target and draft one after the other.

    Raises:
        EngineError: what is named is no GGUF, or does not start.
        RegistryError, BringupError: it is not there.
    """
    if is_head(draft):
        raise EngineError("a head is for vLLM: time it with --engine in-process")
    files = [gguf_of(target, store, report), *([] if draft == NGRAM else [gguf_of(draft, store, report)])]
    of_each = [_widths(asked), list(asked.nums_streams)]
    with tempfile.TemporaryDirectory() as scratch:
        found = [
            engine_steps(file, each, Path(scratch) / f"{index}.log", threads=asked.threads)
            for index, (file, each) in enumerate(zip(files, of_each, strict=False))
        ]
    of_draft = found[1] if len(found) > 1 else _lookup_s(asked)
    return StepTimes(engine=f"llama.cpp, {files[0].name}, {_machine()}", target_s=found[0], draft_s=of_draft)


def gguf_of(name: str, store: Store, report: Report) -> Path:
    """The GGUF file that a path or an artifact is.

    Raises:
        EngineError: it is in another form.
        RegistryError, BringupError: it is not there.
    """
    reference = None if name == PACKAGED else parse(name)
    if isinstance(reference, PathReference):
        if not reference.path.is_file():
            raise EngineError(f"{name} is no GGUF file; name one, or an artifact that is one")
        return reference.path
    artifact = packaged(store, report) if reference is None else store.load(reference)
    if not is_gguf(artifact):
        raise EngineError(f"{artifact.reference} is {artifact.manifest.format}, not GGUF; name a GGUF")
    return artifact.weights


def _widths(asked: Asked) -> list[int]:
    return widths(asked.nums_drafts, asked.nums_streams)


def _lookup_s(asked: Asked) -> dict[int, float]:
    return lookup_s(asked.nums_streams, min(asked.nums_drafts))


def _machine() -> str:
    return f"{this_machine().num_cores} cores, {platform.machine()}"
