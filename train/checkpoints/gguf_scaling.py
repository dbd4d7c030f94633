"""RoPE scaling in GGUF: `linear` and `yarn` are keys, `llama3` is a tensor of what each frequency is divided by.

llama.cpp has no name for `llama3`: it takes the divisors as they are. Read back, they are compared with those of Llama
3.1's own borders, which every model of that kind has; a file whose divisors are others is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.model.rope import RopeScaling, yarn_attention_factor
from train.model.shape import LlamaShape

DIVISORS: Final = "rope_freqs.weight"
_PREFIX: Final = "llama.rope.scaling."
_LLAMA3_POSITIONS: Final = 8192
"""Of Llama 3's first training, where a file does not say."""


def scaling_metadata(shape: LlamaShape) -> dict[str, Any]:
    """Keys and values; of `yarn`, attention's factor is told beside the paper's, which llama.cpp multiplies in."""
    scaling = shape.rope_scaling
    if scaling is None:
        return {}
    found: dict[str, Any] = {}
    if scaling.kind != "llama3":
        found |= {f"{_PREFIX}type": scaling.kind, f"{_PREFIX}factor": float(scaling.factor)}
    if scaling.original_max_positions is not None:
        found[f"{_PREFIX}original_context_length"] = scaling.original_max_positions
    if scaling.kind == "yarn":
        found |= {
            f"{_PREFIX}yarn_beta_fast": float(scaling.beta_fast),
            f"{_PREFIX}yarn_beta_slow": float(scaling.beta_slow),
        }
        if scaling.attention_factor is not None:
            found[f"{_PREFIX}attn_factor"] = scaling.magnitude / yarn_attention_factor(scaling.factor)
    return found


def scaling_divisors(shape: LlamaShape) -> npt.NDArray[np.float32] | None:
    """The tensor `rope_freqs.weight`; None where scaling needs none."""
    if shape.rope_scaling is None or shape.rope_scaling.kind != "llama3":
        return None
    from train.model.frequencies import divisors

    return divisors(shape).numpy()


def read_scaling(file: GgufFile, shape: LlamaShape) -> RopeScaling | None:
    """The scaling of a file.

    Args:
        file: a Llama.
        shape: its sizes, without scaling.

    Raises:
        CheckpointError: another way of scaling.
    """
    kind = file.get(f"{_PREFIX}type", "none")
    factor = _number(file.get(f"{_PREFIX}factor", 1.0))
    original = file.get(f"{_PREFIX}original_context_length")
    if DIVISORS in file.tensors:
        return _llama3(file, shape, int(original or _LLAMA3_POSITIONS))
    if kind == "none" or (kind == "linear" and factor == 1):
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor)
    if kind != "yarn":
        raise CheckpointError(
            f"{file.path} has RoPE scaling {kind!r}; 'none', 'linear', 'yarn' and Llama 3's are computed here"
        )
    beside = file.get(f"{_PREFIX}attn_factor")
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_positions=int(original or shape.max_positions),
        beta_fast=_number(file.get(f"{_PREFIX}yarn_beta_fast", 32.0)),
        beta_slow=_number(file.get(f"{_PREFIX}yarn_beta_slow", 1.0)),
        attention_factor=None if beside is None else _number(beside * yarn_attention_factor(factor)),
    )


def _llama3(file: GgufFile, shape: LlamaShape, original: int) -> RopeScaling:
    found = file.weight(DIVISORS)
    scaling = RopeScaling(kind="llama3", factor=_number(found.max()), original_max_positions=original)
    expected = scaling_divisors(replace(shape, rope_scaling=scaling))
    if expected is None or expected.shape != found.shape or not np.allclose(expected, found, rtol=1e-4):
        raise CheckpointError(
            f"{file.path} scales each rotary frequency in a way of its own; Llama 3's is computed here"
        )
    return scaling


def _number(value: float) -> float:
    """Single precision in the file: a third comes back as one."""
    return float(f"{value:.6g}")
