"""Whatever is evaluated, opened in one way.

    RUN                       of `tierwise distill student`: its RUN/student
    ./directory               a checkpoint in Hugging Face's form, or what `tierwise distill quantize` wrote for vLLM
    ./model.gguf              a GGUF file: the numbers that its weights stand for, computed in single precision
    name:version, name@label  an artifact of the registry; `smollm2` is the packaged base

With a server its answers are taken, and of what is named there are the tokenizer and the chat template alone. Whatever
has to be made of it goes when it is left: no artifact is made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distill.hashes import hash_of_files, hash_of_path
from distill.quantization.opened import open_quantized
from distill.student_directory import ABOUT_NAME, STUDENT_NAME
from serving.bringup.materialize import DELTA_FORMATS, base_of, open_delta
from serving.bringup.packaged import chat_template_of
from serving.bringup.progress import Report
from serving.engines.base import Endpoint
from serving.registry.artifact import Artifact
from serving.registry.reference import PathReference, parse
from serving.registry.store import Store
from train.base import PACKAGED, is_gguf, other_form, packaged
from train.checkpoints.directory import CHAT_TEMPLATE, CONFIG, CheckpointError, read_config
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_shape import read_shape
from train.checkpoints.policy_file import PolicyFile
from train.model.llama import Llama
from train.model.weights import load_llama
from train.rollouts.engine import EngineSampler
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Sampler
from train.served import MAX_ANSWER_S, first_model


@dataclass(frozen=True, slots=True)
class Server:
    """Who answers in a subject's place."""

    endpoint: Endpoint
    model_id: str | None = None
    """The first that it lists where None."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is evaluated."""

    name: str
    """As it was called."""
    sha256: str
    """Of its weights (`weights_sha256`)."""
    start: Path
    """A directory with its tokenizer and chat template."""
    sampler: Sampler
    model: Llama | None
    """None where a server answers."""


@contextmanager
def opened(name: str, store: Store, report: Report, *, server: Server | None = None) -> Iterator[Subject]:
    """The subject, until it is left.

    Args:
        name: as in the module's docstring.
        store: the registry.
        report: hears what happens.
        server: answers in its place.

    Raises:
        CheckpointError, RegistryError, BringupError: it is not there, damaged, or in a format not computed here.
        EngineError: the server cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="tierwise-subject-") as scratch:
        start = _directory(name, Path(scratch), store, report)
        sha256 = weights_sha256(name, store, report)
        if server is not None:
            model_id = server.model_id or first_model(server.endpoint)
            sampler = EngineSampler(server.endpoint, model_id, max_seconds=MAX_ANSWER_S)
            yield Subject(name, sha256, start, sampler, None)
            return
        if "quantization_config" in read_config(start):
            quantised, sampling = open_quantized(start)
            yield Subject(name, sha256, start, sampling, quantised)
            return
        model = load_llama(start)
        yield Subject(name, sha256, start, InProcessSampler(model), model)


def path_of(name: str) -> Path | None:
    """The file or directory that a name means, a run's student being its checkpoint; None for an artifact's name."""
    reference = None if name == PACKAGED else parse(name)
    if not isinstance(reference, PathReference):
        return None
    path = reference.path
    return path / STUDENT_NAME if (path / ABOUT_NAME).exists() else path


def weights_sha256(name: str, store: Store, report: Report) -> str:
    """By which an evaluation is known to be of these weights (`hashes`).

    Raises:
        As `opened`.
    """
    path = path_of(name)
    if path is None:
        artifact = packaged(store, report) if name == PACKAGED else store.load(name)
        return hash_of_files(_listed(artifact))
    return hash_of_path(path)


def _directory(name: str, scratch: Path, store: Store, report: Report) -> Path:
    path = path_of(name)
    if path is None:
        return _of_artifact(packaged(store, report) if name == PACKAGED else store.load(name), scratch, store)
    if path.is_file():
        convert_from_gguf(GgufFile(path), scratch)
        return scratch
    if not (path / CONFIG).exists():
        raise CheckpointError(f"{path} is neither a checkpoint nor a GGUF file; correct the path")
    return path


def _of_artifact(artifact: Artifact, scratch: Path, store: Store) -> Path:
    """Its directory, or that of the form of it which the registry has, or else one made for as long as it is used."""
    is_delta = artifact.manifest.format in DELTA_FORMATS
    if not is_delta and not is_gguf(artifact):
        return artifact.directory
    if (found := other_form(artifact, "safetensors", store)) is not None:
        return found.directory
    base = base_of(store, artifact) if is_delta else artifact
    file = GgufFile(base.weights)
    if is_delta:
        shape = read_shape(file)
        heads = (shape.num_heads, shape.num_kv_heads)
        file = PolicyFile(base.weights, open_delta(artifact.manifest.format, artifact.directory, heads=heads))
    convert_from_gguf(file, scratch)
    template = chat_template_of(base.manifest.files[0].sha256)
    if template is not None:  # tiers of this base are served with it
        (scratch / CHAT_TEMPLATE).write_text(template, encoding="utf-8")
    return scratch


def _listed(artifact: Artifact) -> dict[str, str]:
    """The hashes of an artifact's weights, by file."""
    files = {file.path: file.sha256 for file in artifact.manifest.files}
    weights = {path: sha256 for path, sha256 in files.items() if path.endswith(".safetensors")}
    return weights or files
