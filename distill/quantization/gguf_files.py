"""A model as quantised GGUF files, written one after the other from one in single precision, and read back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from distill.quantization.types import GgufType
from serving.engines.requantize import SourceModel, requantize
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import from_gguf_order, num_rotated_heads, tensor_names
from train.model.shape import LlamaShape


def write(source: SourceModel, out: Path, kind: GgufType) -> None:
    """Write `out`.

    Args:
        source: the model in single precision (`train.checkpoints.to_gguf`), opened once for all types.
        out: the file.
        kind: what of.

    Raises:
        RequantizeError: no matrix can be of this type.
    """
    requantize(source, out, quantization=kind.quantization)


def read(path: Path, shape: LlamaShape) -> dict[str, Tensor]:
    """What a file's weights stand for, in single precision, as a checkpoint names them.

    Raises:
        CheckpointError: the file is no whole model of this shape.
    """
    file = GgufFile(path)
    weights = {}
    for theirs, ours in tensor_names(shape).items():
        weight = file.weight(theirs)
        heads = num_rotated_heads(theirs, shape)
        weights[ours] = torch.tensor(weight if heads is None else from_gguf_order(weight, heads))
    return weights


def num_weights(path: Path) -> dict[str, int]:
    """GGUF type → weights in it: what a file really is, whatever its name says."""
    found: Counter[str] = Counter()
    for tensor in GgufFile(path).tensors.values():
        found[tensor.tensor_type.name] += int(tensor.n_elements)
    return dict(found.most_common())
