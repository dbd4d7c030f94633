"""The models of a line-up, each in the form in which engines load it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from distill.examine import engine_file
from distill.subject import Server, Subject, opened
from serving.bringup.progress import Report
from serving.engines.base import Endpoint
from serving.registry.store import Store
from train.checkpoints.gguf_file import GgufFile

_EMBEDDING: Final = "token_embd.weight"
_OUTPUT: Final = "output.weight"
_ENGINE_TO_COME: Final = Server(Endpoint(url="http://127.0.0.1:0"), "none yet")
"""So that no weights are loaded here: engines answer, once they are up on what is made of a subject."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """One model, by the name that it has in the table."""

    label: str
    name: str
    """As `subject` takes it."""

    @classmethod
    def parse(cls, text: str) -> Entrant:
        """From `label=name`.

        Raises:
            ValueError: one of the two is missing.
        """
        label, equals, name = text.partition("=")
        if not (label.strip() and equals and name.strip()):
            raise ValueError(f"{text!r} names no model; write it like fast=fast@stable")
        return cls(label.strip(), name.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An entrant as engines load it."""

    label: str
    name: str
    sha256: str
    """Of its weights, as they are named."""
    file: Path
    """What llama.cpp loads."""
    start: Path
    """What vLLM loads, with the tokenizer and chat template: of a GGUF the numbers that its weights stand for."""
    quantization: str
    """That most weights of the file are in."""
    size_bytes: int
    """Of the file."""
    read_bytes: int
    """Of weights, for a token of a lone stream in llama.cpp: divided by what memory brings in a second, the least time
    that it takes. Keys and values come on top."""

    @property
    def key(self) -> dict[str, str]:
        """By which measurements know it."""
        return {"sha256": self.sha256, "quantization": self.quantization}


@contextmanager
def made_ready(
    entrants: Sequence[Entrant], store: Store, report: Report, *, quantizations: Mapping[str, str]
) -> Iterator[tuple[Ready, ...]]:
    """All of them, until they are left; nothing is published.

    Args:
        entrants: in the order of the table.
        store: the registry.
        report: hears what happens.
        quantizations: by label, of what is no GGUF yet.

    Raises:
        CheckpointError, RegistryError, BringupError: one is not there, damaged, or for vLLM alone.
        EngineError: one cannot be quantised so.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="tierwise-line-up-")))
        found = []
        for number, entrant in enumerate(entrants):
            report.say(f"{entrant.label}: opening {entrant.name}")
            subject = stack.enter_context(opened(entrant.name, store, report, server=_ENGINE_TO_COME))
            quantization = quantizations[entrant.label]
            file = engine_file(subject, scratch / str(number), store, report, quantization=quantization)
            found.append(_ready(entrant.label, subject, file))
        yield tuple(found)


def _ready(label: str, subject: Subject, file: Path) -> Ready:
    weights = GgufFile(file)
    return Ready(
        label=label,
        name=subject.name,
        sha256=subject.sha256,
        file=file,
        start=subject.start,
        quantization=weights.quantization(),
        size_bytes=file.stat().st_size,
        read_bytes=bytes_read(weights),
    )


def bytes_read(weights: GgufFile) -> int:
    """Bytes of weights that one token takes: all, but for an embedding that is not the output matrix too."""
    is_tied = _OUTPUT not in weights.tensors
    return sum(
        int(tensor.n_bytes) for name, tensor in weights.tensors.items() if is_tied or name != _EMBEDDING
    )
