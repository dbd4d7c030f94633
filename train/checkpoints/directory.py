"""A checkpoint's directory as Hugging Face lays it out: what must be there, and its parts read one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"


class CheckpointError(Exception):
    """A checkpoint cannot be read or converted; the message names the remedy."""


def read_json(path: Path) -> Any:
    """A JSON file.

    Raises:
        CheckpointError: it is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{path.parent} has no {path.name}; name a whole checkpoint's directory"
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged ({error}); take a fresh copy") from None


def read_config(directory: Path) -> dict[str, Any]:
    """`config.json`."""
    config: dict[str, Any] = read_json(directory / CONFIG)
    return config


def weight_files(directory: Path) -> list[Path]:
    """The files that hold the weights: one, or the shards that an index names.

    Raises:
        CheckpointError: there are none, or shards are missing.
    """
    if (directory / WEIGHTS).exists():
        return [directory / WEIGHTS]
    if not (directory / INDEX).exists():
        raise CheckpointError(f"{directory} has no {WEIGHTS}; convert the checkpoint to safetensors first")
    names = sorted(set(read_json(directory / INDEX)["weight_map"].values()))
    if missing := [name for name in names if not (directory / name).exists()]:
        raise CheckpointError(f"{directory} lacks {', '.join(missing)}; take a fresh copy")
    return [directory / name for name in names]


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """All weights by name.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for path in weight_files(directory):
        try:
            tensors |= load_file(path)
        except SafetensorError as error:
            raise CheckpointError(f"{path} is damaged ({error}); take a fresh copy") from None
    return tensors


def chat_template(directory: Path) -> str | None:
    """The chat template: a file of its own, or a member of `tokenizer_config.json`."""
    if (directory / CHAT_TEMPLATE).exists():
        return (directory / CHAT_TEMPLATE).read_text(encoding="utf-8")
    template = read_json(directory / TOKENIZER_CONFIG).get("chat_template")
    return template if isinstance(template, str) else None
