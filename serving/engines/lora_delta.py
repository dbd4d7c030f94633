"""Format `lora`: peft's adapters (`adapter_config.json`, `adapter_model.safetensors`), merged: W + alpha / r · B A.

vLLM loads such a directory as it is; here it becomes part of the weights (arXiv:2106.09685, section 4.1). safetensors
files are read by hand: eight bytes of length, a JSON header, and the tensors one after the other.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from serving.engines.llama_names import IN_LAYER, to_gguf_order
from serving.engines.weight_delta import DeltaError, Weights

FORMAT: Final = "lora"
CONFIG_NAME: Final = "adapter_config.json"
WEIGHTS_NAME: Final = "adapter_model.safetensors"
_MODULE = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.(.+)\.lora_([AB])\.weight")
_DTYPES: Final = {"F32": "<f4", "F16": "<f2"}
_UNREAD: Final = (
    "use_rslora",
    "use_dora",
    "rank_pattern",
    "alpha_pattern",
    "fan_in_fan_out",
    "modules_to_save",
)
"""Members of peft's configuration that change what an adapter means."""


class LoraDelta:
    """Adapters on the linear maps of a Llama's layers.

    Args:
        directory: of peft's two files.
        num_heads: of the base's queries.
        num_kv_heads: of its keys.

    Raises:
        DeltaError: they are damaged, or mean more than is merged here.
    """

    def __init__(self, directory: Path, *, num_heads: int, num_kv_heads: int) -> None:
        self._directory = directory
        self._heads = {"attn_q": num_heads, "attn_k": num_kv_heads}
        try:
            config = json.loads((directory / CONFIG_NAME).read_text(encoding="utf-8"))
            self._scale = float(config["lora_alpha"]) / int(config["r"])
            tensors = _read_safetensors(directory / WEIGHTS_NAME)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise DeltaError(
                f"{directory} holds no whole adapter ({error}); publish the policy again"
            ) from None
        if asked := [name for name in _UNREAD if config.get(name)]:
            raise DeltaError(f"{directory} needs {', '.join(asked)}, which is not merged here; train without")
        self._pairs = self._paired(tensors)

    @property
    def names(self) -> frozenset[str]:
        """The weights that it changes."""
        return frozenset(self._pairs)

    @property
    def kept_layers(self) -> None:
        """All of the base's."""
        return None

    def added_to(self, name: str, weights: Weights) -> Weights:
        """`weights` with the adapter merged in.

        Raises:
            DeltaError: their shapes differ.
        """
        first, second = self._pairs[name]
        if weights.shape != (len(second), first.shape[1]):
            raise DeltaError(
                f"{self._directory}: {name} is {(len(second), first.shape[1])}, the base's {weights.shape}; "
                "it is another base"
            )
        added = np.float32(self._scale) * (second @ first)
        heads = self._heads.get(name.split(".")[2])
        return weights + (added if heads is None else to_gguf_order(added, heads))

    def _paired(self, tensors: dict[str, Weights]) -> dict[str, tuple[Weights, Weights]]:
        """A and B by GGUF's name."""
        theirs = {ours: name for name, ours in IN_LAYER.items()}
        halves: dict[str, dict[str, Weights]] = {}
        for name, tensor in tensors.items():
            found = _MODULE.fullmatch(name)
            if found is None or found[2] not in theirs:
                raise DeltaError(
                    f"{self._directory} adapts {name}, which is no linear map of a Llama's layer"
                )
            halves.setdefault(f"blk.{found[1]}.{theirs[found[2]]}.weight", {})[found[3]] = tensor
        if lame := sorted(name for name, pair in halves.items() if len(pair) != 2):
            raise DeltaError(
                f"{self._directory} holds half an adapter of {lame[0]}; publish the policy again"
            )
        return {name: (pair["A"], pair["B"]) for name, pair in halves.items()}


def _read_safetensors(path: Path) -> dict[str, Weights]:
    data = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    return {name: _tensor(data[8 + header_bytes :], entry) for name, entry in header.items()}


def _tensor(data: bytes, entry: dict[str, Any]) -> npt.NDArray[np.float32]:
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"]).astype(np.float32)
