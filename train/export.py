"""A policy as files of its own: a run's last checkpoint, or an artifact, whole and merged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serving.bringup.progress import Report
from serving.registry.store import Store
from train.base import locate
from train.checkpoints.directory import (
    CHAT_TEMPLATE,
    CONFIG,
    INDEX,
    TOKENIZER,
    TOKENIZER_CONFIG,
    weight_files,
)
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.lora import merge
from train.model.weights import save_llama
from train.run_directory import RECIPE_NAME, RunError
from train.trained import load_trained


def export(policy: str, out: Path, store: Store, report: Report, *, is_gguf: bool = False) -> Path:
    """Write a checkpoint in Hugging Face's form, or one GGUF file in single precision; the path of it.

    Args:
        policy: a run's directory, or what `train.base.locate` takes.
        out: a directory that does not exist yet, or holds nothing; it appears whole.
        store: the registry.
        report: hears what happens.
        is_gguf: whether the directory is to hold a GGUF file instead.

    Raises:
        RunError: the run cannot be exported, or something is in the way.
        CheckpointError, RegistryError, BringupError: what it is made of is not there.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} holds something already; name a directory that does not exist")
    with _appearing(out) as part:
        whole = part / "whole" if is_gguf else part
        whole.mkdir(exist_ok=True)
        if (Path(policy) / RECIPE_NAME).exists():
            _write_run(Path(policy), whole, store, report)
        else:
            _copy(locate(policy, store, report), whole)
        if is_gguf:
            convert_to_gguf(whole, part / "model.gguf")
            shutil.rmtree(whole)
    return out / "model.gguf" if is_gguf else out


def _write_run(run: Path, target: Path, store: Store, report: Report) -> None:
    trained = load_trained(run, store, report)
    merge(trained.model)
    save_llama(trained.model, target)
    _copy(trained.start, target, has_weights=False)


def _copy(source: Path, target: Path, *, has_weights: bool = True) -> None:
    """The files of a checkpoint; without its weights, those of its tokenizer."""
    others = (CONFIG, INDEX) if has_weights else ()
    paths = [source / name for name in (TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE, *others)]
    for path in [*(weight_files(source) if has_weights else []), *(each for each in paths if each.exists())]:
        shutil.copyfile(path, target / path.name)


@contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A directory beside `out` that becomes it at the end, or goes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".part-{out.name}-") as scratch:
        part = Path(scratch, "out")
        part.mkdir()
        yield part
        if out.exists():
            out.rmdir()
        part.rename(out)
