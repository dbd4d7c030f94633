"""Everything that the gate wants to know of a candidate, measured: what it scores, and what engines make of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from distill.dossier import Dossier
from distill.drafts.opened import is_head, open_head
from distill.evaluate import compare, speak_alike
from distill.gate import EngineName
from distill.load_test import Load, Trial, try_out
from distill.questions import Questions
from distill.subject import Server, Subject, opened, path_of, weights_sha256
from distill.vllm_trial import VllmTrial
from serving.bringup.progress import Report
from serving.engines.base import Engine
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.requantize import open_model, requantize
from serving.registry.store import Store
from serving.settings_sources import environment
from train.base import PACKAGED, is_gguf, packaged
from train.checkpoints.directory import CheckpointError, read_config
from train.checkpoints.to_gguf import convert_to_gguf
from train.verifiers.pool import Pool

NUM_VERIFIERS: Final = 2
CONTEXT_TOKENS: Final = 512
"""Of a request in a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """Which engines are tried, and how."""

    engines: tuple[EngineName, ...]
    vllm_python: Path | None = None
    """Without one vLLM is not tried."""
    load: Load = field(default_factory=Load)
    threads: int | None = None
    quantization: str = "Q4_0"
    """Of the candidate in llama.cpp, where it is no GGUF; the fast tier's."""
    full_quantization: str = "Q8_0"
    """The same of the full model."""


def examine(
    candidate: str,
    teacher: str,
    store: Store,
    report: Report,
    *,
    questions: Questions | None,
    trying: Trying | None,
    server: Server | None = None,
    on_side: Callable[[str], None] = lambda name: None,
) -> Dossier:
    """Open both, ask both, and bring both up.

    Args:
        candidate: as `subject` takes it, or the directory of a draft head, which scores nothing.
        teacher: the full model.
        store: the registry; nothing of the candidate is published.
        report: hears what happens.
        questions: of the scores; None asks nothing.
        trying: of engines; None tries none.
        server: answers in the candidate's place.
        on_side: told who is asked.

    Raises:
        CheckpointError, RegistryError, BringupError: one of the two is not there.
        EngineError: the server cannot be reached, or the full model not be served.
        RunError, UnauditedError: the questions cannot be asked.
    """
    sha256 = weights_sha256(candidate, store, report)
    with ExitStack() as stack:
        full = stack.enter_context(opened(teacher, store, report))
        if is_head(candidate):
            assert full.model is not None, "the full model is no server's"
            open_head(candidate, full.model)  # of other sizes or another vocabulary it is refused
            trials = _head_trials(Path(candidate), full, trying, report)
            return Dossier(candidate=candidate, sha256=sha256, is_same_tokenizer=True, trials=trials)
        mine = stack.enter_context(opened(candidate, store, report, server=server))
        comparison = None
        if questions is not None:
            pool = stack.enter_context(Pool(NUM_VERIFIERS))
            comparison = compare(mine, full, questions, pool, on_side=on_side)
        return Dossier(
            candidate=candidate,
            sha256=sha256,
            is_same_tokenizer=speak_alike(mine, full),
            comparison=comparison,
            trials=_trials(mine, full, trying, store, report),
        )


def _trials(
    mine: Subject, full: Subject, trying: Trying | None, store: Store, report: Report
) -> tuple[Trial, ...]:
    if trying is None:
        return ()
    found = []
    with tempfile.TemporaryDirectory(prefix="tierwise-trial-") as made:
        scratch = Path(made)
        for name in trying.engines:
            if name == "llama.cpp":
                models = (
                    engine_file(mine, scratch / "candidate", store, report, quantization=trying.quantization),
                    engine_file(full, scratch / "full", store, report, quantization=trying.full_quantization),
                )
            else:
                models = (mine.start, full.start)
            if (engine := _engine(name, trying)) is not None:
                report.say(f"{name}: bringing the candidate up")
                found.append(try_out(name, engine, *models, trying.load, scratch / name, environment()))
    return tuple(found)


def _head_trials(head: Path, full: Subject, trying: Trying | None, report: Report) -> tuple[Trial, ...]:
    """A head is served by vLLM alone, on its target."""
    engine = None if trying is None or "vLLM" not in trying.engines else _engine("vLLM", trying)
    if engine is None or trying is None:
        return ()
    report.say("vLLM: bringing the target up with the head")
    with tempfile.TemporaryDirectory(prefix="tierwise-trial-") as made:
        return (try_out("vLLM", engine, head, full.start, trying.load, Path(made), environment()),)


def _engine(name: EngineName, trying: Trying) -> Engine | None:
    num_streams = max(trying.load.nums_streams)
    if name == "llama.cpp":
        settings = LlamaCppSettings(
            threads=trying.threads, slots=num_streams, context_tokens=CONTEXT_TOKENS, prompt_cache_mib=0
        )
        return LlamaCppEngine(settings, num_sharing=2)
    if trying.vllm_python is None:
        return None
    return VllmTrial(
        trying.vllm_python,
        num_streams=num_streams,
        context_tokens=CONTEXT_TOKENS,
        threads=trying.threads,
    )


def engine_file(subject: Subject, scratch: Path, store: Store, report: Report, *, quantization: str) -> Path:
    """What llama.cpp loads: the GGUF that a subject is, or that it is served as.

    Args:
        subject: opened.
        scratch: a directory for what has to be made; made itself where it is needed.
        store: the registry.
        report: hears what happens.
        quantization: of what is made.

    Raises:
        CheckpointError: it is quantised for vLLM alone.
    """
    path = path_of(subject.name)
    if path is None:
        artifact = packaged(store, report) if subject.name == PACKAGED else store.load(subject.name)
        if is_gguf(artifact):
            return artifact.weights
    elif path.is_file():
        return path
    if "quantization_config" in read_config(subject.start):
        raise CheckpointError(
            f"{subject.name} is quantised for vLLM, and llama.cpp does not read it; leave that out: --engines vLLM"
        )
    scratch.mkdir(parents=True, exist_ok=True)
    whole, made = scratch / "whole.gguf", scratch / f"model.{quantization}.gguf"
    convert_to_gguf(subject.start, whole)
    requantize(open_model(whole), made, quantization=quantization)
    whole.unlink()
    return made
