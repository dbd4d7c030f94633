"""Checkpoints of a run: tensors and plain state in a directory that is whole or not there.

A checkpoint is written beside the others under a name that nobody reads, flushed to the disk, and renamed. What is
found later without its state, or with tensors that are not those it was saved with, is passed over for the one before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors.torch import load_file, save_file
from torch import Tensor

from serving.registry.durable import sync, sync_tree

STATE_NAME: Final = "state.json"
TENSORS_NAME: Final = "tensors.safetensors"
_NAME = re.compile(r"step-(\d{8})")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run as it stood after so many steps."""

    num_steps: int
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]
    """Plain members: counters, curricula, ids of what was consumed, rollouts that wait."""


def save(directory: Path, checkpoint: Checkpoint, *, num_kept: int = 2) -> Path:
    """Write the checkpoint into `directory`, and remove all but the last `num_kept` there; its path.

    Raises:
        OSError: the disk is full, or not to be written to; nothing half-written is left under a name that is read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"step-{checkpoint.num_steps:08d}"
    part = directory / f".part-{os.getpid()}-{path.name}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        save_file(
            {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}, part / TENSORS_NAME
        )
        state = {
            "num_steps": checkpoint.num_steps,
            "tensors_sha256": _sha256(part / TENSORS_NAME),
            "state": checkpoint.state,
        }
        (part / STATE_NAME).write_text(json.dumps(state))
        sync_tree(part)
        if path.exists():  # of a run that went this far before, and was taken up from an earlier step
            shutil.rmtree(path)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    sync(directory)
    for old in _paths(directory)[:-num_kept]:
        shutil.rmtree(old)
    return path


def load_latest(directory: Path) -> Checkpoint | None:
    """The last whole checkpoint in `directory`; None where there is none."""
    for path in reversed(_paths(directory)):
        try:
            state = json.loads((path / STATE_NAME).read_text())
            if state["tensors_sha256"] != _sha256(path / TENSORS_NAME):
                raise ValueError("its tensors are not those it was saved with")
            return Checkpoint(state["num_steps"], load_file(path / TENSORS_NAME), state["state"])
        except (OSError, ValueError, KeyError) as error:
            _log.warning("the checkpoint %s is passed over: %s", path, error)
    return None


def _paths(directory: Path) -> list[Path]:
    """Of all checkpoints, the earliest first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
