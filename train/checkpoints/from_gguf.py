"""GGUF → a directory of safetensors, configuration, tokenizer and chat template.

Quantised weights become the single-precision numbers that they stand for, so that nothing is lost on the way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from train.checkpoints.directory import CONFIG, WEIGHTS
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import from_gguf_order, num_rotated_heads, tensor_names
from train.checkpoints.gguf_shape import read_shape
from train.checkpoints.tokenizer_files import special_ids, write_tokenizer


def convert_from_gguf(file: GgufFile, directory: Path) -> None:
    """Write the checkpoint into an existing directory.

    Raises:
        CheckpointError: the file holds no Llama that is known here.
    """
    shape = read_shape(file)
    write_tokenizer(file, directory)
    weights = {}
    for theirs, ours in tensor_names(shape).items():
        weight: Any = file.weight(theirs)
        heads = num_rotated_heads(theirs, shape)
        weights[ours] = weight if heads is None else from_gguf_order(weight, heads)
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    config = {**shape.as_config(), "torch_dtype": "float32"}
    config |= {f"{role}_token_id": index for role, index in special_ids(file).items() if role != "unk"}
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
