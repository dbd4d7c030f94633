"""A student as what is published of it: the base's layers that it kept, and how its weights differ from theirs.

Whole matrices at four bits take 18/32 of a byte a weight, so that a dozen layers of SmolLM2 fill 25 MB. Where more of
them moved, differences are cut to a low rank: the first singular values and vectors are the nearest matrix of that
rank (Eckart and Young, 1936), and a merged adapter of that rank is kept as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from distill.pruning.pruned import with_layers
from serving.engines.llama_names import to_gguf_order
from serving.engines.student_delta import FILE_NAME, LowRank, StudentDelta, write_student_delta
from serving.engines.weight_delta import Weights
from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import from_gguf_order, num_rotated_heads, tensor_names
from train.checkpoints.policy_file import PolicyFile
from train.model.llama import Llama
from train.model.weights import state_of

MAX_BYTES: Final = 25_000_000
"""What may be released with the code is no larger."""
_BYTES_A_WEIGHT: Final = {"Q4_0": 18 / 32, "Q5_0": 22 / 32, "Q8_0": 34 / 32}

_log = logging.getLogger(__name__)


def student_differences(
    student: Llama, base: GgufFile, kept_layers: Sequence[int], *, rank: int | None = None
) -> dict[str, Weights | LowRank]:
    """Student − base of every weight that differs, by the base's GGUF name and in GGUF's order of rows.

    Args:
        student: adapters merged.
        base: of which it keeps some layers.
        kept_layers: which, rising; as many as the student has.
        rank: of the matrices' differences; None leaves them whole.

    Raises:
        CheckpointError: the student has another number of layers, or other sizes than the base's.
    """
    if len(kept_layers) != student.shape.num_layers or list(kept_layers) != sorted(set(kept_layers)):
        raise CheckpointError(
            f"the student has {student.shape.num_layers} layers, and {list(kept_layers)} are named; name them, rising"
        )
    state = state_of(student)
    found: dict[str, Weights | LowRank] = {}
    for theirs, ours in tensor_names(student.shape).items():
        of_base = _in_base(theirs, kept_layers)
        heads = num_rotated_heads(theirs, student.shape)
        before = base.weight(of_base)
        weights = state[ours].float().numpy()
        ordered: Any = weights if heads is None else to_gguf_order(weights, heads)
        if before.shape != ordered.shape:
            raise CheckpointError(
                f"{base.path}: {of_base} is {before.shape}, the student's {ordered.shape}; it is another base"
            )
        difference = ordered - before
        if difference.any():
            is_cut = rank is not None and difference.ndim > 1
            found[of_base] = low_rank(difference, rank) if is_cut and rank is not None else difference
    return found


def low_rank(difference: Weights, rank: int) -> LowRank:
    """The nearest matrix of this rank, its singular values dealt evenly to both halves."""
    left, values, right = torch.linalg.svd(torch.from_numpy(difference), full_matrices=False)
    roots = values[:rank].sqrt()
    return LowRank((roots[:, None] * right[:rank]).numpy(), (left[:, :rank] * roots).numpy())


def write(
    directory: Path,
    student: Llama,
    base: GgufFile,
    kept_layers: Sequence[int],
    *,
    rank: int | None = None,
    quantization: str = "Q4_0",
) -> int:
    """Write the difference into a directory; the number of bytes.

    More than `MAX_BYTES` are written all the same, with a warning: a student for one's own machine may be larger, and
    the gate refuses to publish it (`gate`).

    Raises:
        CheckpointError: as `student_differences`.
    """
    path = directory / FILE_NAME
    found = student_differences(student, base, kept_layers, rank=rank)
    write_student_delta(path, kept_layers, found, quantization=quantization)
    if (num_bytes := path.stat().st_size) > MAX_BYTES:
        _log.warning("%s: %s", path, too_large(num_bytes))
    return num_bytes


def expected_bytes(moving: Iterable[torch.Tensor], *, quantization: str = "Q4_0") -> int:
    """About so many a difference of these whole weights takes; headers apart."""
    each = _BYTES_A_WEIGHT[quantization]
    return round(sum(weight.numel() * (each if weight.dim() > 1 else 4) for weight in moving))


def fitting_rank(moving: Iterable[torch.Tensor]) -> int:
    """The largest rank at which these weights' difference takes no more than `MAX_BYTES`; headers apart, 1 % is left.

    Matrices are products in half precision, all else is whole in single precision.
    """
    weights = list(moving)
    whole = sum(4 * weight.numel() for weight in weights if weight.dim() == 1)
    each = sum(2 * sum(weight.shape) for weight in weights if weight.dim() > 1)
    return int((0.99 * MAX_BYTES - whole) // each)


def too_large(num_bytes: int) -> str:
    """What is wrong with a difference of more than `MAX_BYTES`, and what helps."""
    return (
        f"the difference takes {num_bytes / 1e6:.1f} MB, and what is published takes at most {MAX_BYTES / 1e6:.0f}; "
        "keep fewer layers, train `layers` and not `all`, or cut it to a rank"
    )


def read(directory: Path, base: Path, whole: Llama) -> Llama:
    """The student of a written difference, as serving makes it.

    Args:
        directory: of the difference.
        base: its GGUF.
        whole: a model of the base's sizes; its weights are replaced.

    Raises:
        DeltaError, CheckpointError: the difference is damaged, or to another base.
    """
    delta = StudentDelta(directory / FILE_NAME)
    file = PolicyFile(base, delta)
    student = with_layers(whole, delta.kept_layers)
    state = student.state_dict()
    for theirs, ours in tensor_names(student.shape).items():
        heads = num_rotated_heads(theirs, student.shape)
        weights = file.weight(theirs)
        state[ours].copy_(torch.tensor(weights if heads is None else from_gguf_order(weights, heads)))
    return student


def _in_base(name: str, kept_layers: Sequence[int]) -> str:
    """The base's name of a student's weight."""
    kind, *rest = name.split(".")
    return name if kind != "blk" else ".".join((kind, str(kept_layers[int(rest[0])]), *rest[1:]))
