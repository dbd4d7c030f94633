"""A model in the compressed-tensors format that vLLM loads: safetensors, and `quantization_config` in config.json.

Linear maps of the layers are quantised (`integers`). `pack-quantized` has, in place of a weight, `weight_packed` in
int32 words, `weight_scale` (O, G) and `weight_shape`; `int-quantized` has `weight` in int8 and `weight_scale` (O, 1).
The embedding, norms and an output matrix of its own are in bfloat16; a tied output matrix is not written, so that it
stays tied. The format is that of the `compressed-tensors` package, 0.17.

Which of them a server takes is the server's affair. vLLM 0.32 on a CPU multiplies w4a16 (kernel `CPUWNA16`, sizes in
multiples of 32) and w8a8 (oneDNN), and has no kernel for w8a16, which is for GPUs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from distill.quantization.integers import SHARES, GroupSizeError, Integers, pack, round_to_integers, unpack
from distill.quantization.types import TYPES, IntegerType
from train.checkpoints.directory import (
    CHAT_TEMPLATE,
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    CheckpointError,
    read_config,
    read_tensors,
)

GROUP_SIZES: Final = (128, 64, 32)
"""Tried in this order: a scale of sixteen bits for as many weights as divide all rows."""
PLAIN_TYPE: Final = torch.bfloat16
METHOD: Final = "compressed-tensors"
_WEIGHT: Final = ".weight"


def is_quantized(name: str) -> bool:
    """Whether a weight of this name is a linear map of a layer."""
    return name.startswith("model.layers.") and name.endswith("_proj.weight")


def choose_group_size(weights: Mapping[str, Tensor], wanted: int | None = None) -> int:
    """The one that is wanted, or the largest of `GROUP_SIZES`, that divides the rows of all that is quantised.

    Raises:
        GroupSizeError: none does.
    """
    rows = {weight.shape[1] for name, weight in weights.items() if is_quantized(name)}
    sizes = GROUP_SIZES if wanted is None else (wanted,)
    for size in sizes:
        if all(row % size == 0 for row in rows):
            return size
    raise GroupSizeError(
        f"rows of {', '.join(map(str, sorted(rows)))} weights do not all divide into groups of "
        f"{', '.join(map(str, sizes))}; take smaller groups, a type with a scale for each row, or a GGUF type"
    )


def write(
    weights: Mapping[str, Tensor],
    start: Path,
    out: Path,
    kind: IntegerType,
    *,
    group_size: int | None = None,
    importance: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Write a model.

    Args:
        weights: as a checkpoint names them; a tied output matrix left out.
        start: the checkpoint whose configuration and tokenizer it has.
        out: a directory; made where it is missing.
        kind: what of.
        group_size: weights to a scale, of types with groups; the largest that divides all rows where None.
        importance: of inputs, by weight (`importance.mean_squares`), where scales are searched.

    Raises:
        GroupSizeError: rows do not divide into groups.
        CheckpointError: `start` is not whole.
    """
    size = choose_group_size(weights, group_size) if kind.is_grouped else None
    shares = SHARES if kind.is_grouped else (1.0,)
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if is_quantized(name):
            found = round_to_integers(
                weight, kind.num_bits, group_size=size, shares=shares, importance=importance.get(name)
            )
            stored |= _stored(name.removesuffix(_WEIGHT), found, kind)
        else:
            stored[name] = weight.to(PLAIN_TYPE).contiguous()
    config = {key: value for key, value in read_config(start).items() if key != "dtype"}
    config |= {"torch_dtype": str(PLAIN_TYPE)[6:], "quantization_config": quantization_config(kind, size)}
    out.mkdir(parents=True, exist_ok=True)
    save_file(stored, out / WEIGHTS, metadata={"format": "pt"})
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for other in (TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE):
        if (start / other).exists():
            shutil.copyfile(start / other, out / other)


def kind_of(directory: Path) -> IntegerType:
    """The type that a directory is of, by its config.json; groups may be of any size.

    Raises:
        CheckpointError: of none: another format, or zero points, several groups or floats in this one.
    """
    told = read_config(directory).get("quantization_config") or {}
    for kind in TYPES.values():
        if isinstance(kind, IntegerType) and len(told.get("config_groups") or ()) == 1:
            wanted = quantization_config(kind, None)
            del wanted["config_groups"]["group_0"]["weights"]["group_size"]
            if all(
                _says(told.get(name), wanted[name]) for name in ("quant_method", "format", "config_groups")
            ):
                return kind
    said = told.get("quant_method", "none")
    raise CheckpointError(
        f"{directory} is not in the {METHOD} format as `tierwise distill quantize` writes it (quantised by: {said}), "
        "and not computed here; serve it, and let `tierwise distill evaluate --url` ask the server"
    )


def read(directory: Path) -> dict[str, Tensor]:
    """What a written model's weights stand for, in single precision, as a checkpoint names them.

    Raises:
        CheckpointError: it is not whole, or not in this format.
    """
    num_bits = kind_of(directory).num_bits
    stored = read_tensors(directory)
    weights: dict[str, Tensor] = {}
    try:
        for name, tensor in stored.items():
            module, _, part = name.rpartition(".")
            match part:
                case "weight_packed":
                    levels = unpack(tensor, num_bits, int(stored[f"{module}.weight_shape"][1]))
                    weights[module + _WEIGHT] = Integers(levels, stored[f"{module}.weight_scale"]).floats()
                case "weight" if tensor.dtype == torch.int8:
                    weights[name] = Integers(tensor, stored[f"{module}.weight_scale"]).floats()
                case "weight":
                    weights[name] = tensor.float()
                case "weight_scale" | "weight_shape":
                    pass
                case _:
                    raise CheckpointError(
                        f"{directory} has {name}, which is not computed here; serve it instead"
                    )
    except KeyError as error:
        raise CheckpointError(f"{directory} lacks {error}; take a fresh copy") from None
    return weights


def quantization_config(kind: IntegerType, group_size: int | None) -> dict[str, Any]:
    """The member of config.json that says how weights, and activations, are rounded."""
    shared = {"num_bits": 8, "type": "int", "symmetric": True}
    weights = {
        **shared,
        "num_bits": kind.num_bits,
        "strategy": "group" if kind.is_grouped else "channel",
        "group_size": group_size,
        "dynamic": False,
    }
    activations = {**shared, "strategy": "token", "dynamic": True} if kind.rounds_activations else None
    return {
        "quant_method": METHOD,
        "format": _format(kind),
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": weights,
                "input_activations": activations,
                "output_activations": None,
            }
        },
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }


def _says(told: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; there may be more."""
    if isinstance(wanted, dict):
        return isinstance(told, dict) and all(_says(told.get(name), each) for name, each in wanted.items())
    return bool(told == wanted)


def _format(kind: IntegerType) -> str:
    return "int-quantized" if kind.rounds_activations else "pack-quantized"


def _stored(module: str, found: Integers, kind: IntegerType) -> dict[str, Tensor]:
    scales = {f"{module}.weight_scale": found.scales.contiguous()}
    if kind.rounds_activations:
        return {f"{module}.weight": found.levels.contiguous(), **scales}
    return {
        f"{module}.weight_packed": pack(found.levels, kind.num_bits),
        f"{module}.weight_shape": torch.tensor(found.levels.shape),
        **scales,
    }
