"""The types that a model is quantised to, by name. No torch here: `--help` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class UnknownTypeError(ValueError):
    """There is no such type; the message names those that are."""


@dataclass(frozen=True, slots=True)
class GgufType:
    """One GGUF file, for llama.cpp; the embedding, and the output matrix that is tied to it, at Q8_0."""

    name: str
    quantization: str
    """As `serving.engines.requantize.FILE_TYPES` has it."""

    def file_name(self, model: str) -> str:
        """Of what is written."""
        return f"{model}-{self.name}.gguf"


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A directory in the compressed-tensors format, for vLLM; embedding and output matrix in bfloat16."""

    name: str
    num_bits: int
    """Of a weight."""
    is_grouped: bool
    """Whether a scale is a group's of a row, or a whole row's."""
    rounds_activations: bool
    """Whether the engine rounds activations too: to eight bits, each token by a scale of its own."""

    def file_name(self, model: str) -> str:
        """Of what is written."""
        return f"{model}-{self.name}"


QuantizedType = GgufType | IntegerType

TYPES: Final[dict[str, QuantizedType]] = {
    each.name: each
    for each in (
        *(GgufType(name, name.upper()) for name in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q4_k")),
        IntegerType("w8a16", 8, is_grouped=False, rounds_activations=False),
        IntegerType("w8a8", 8, is_grouped=False, rounds_activations=True),
        IntegerType("w4a16", 4, is_grouped=True, rounds_activations=False),
    )
}


def parse_types(text: str) -> tuple[QuantizedType, ...]:
    """Types of `q8_0,w4a16`, each once, in their order.

    Raises:
        UnknownTypeError: one of them is none, or there are none.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in TYPES]
    if unknown or not names:
        said = f"there is no type {', '.join(unknown)}" if names else "no type is named"
        raise UnknownTypeError(f"{said}; take from {', '.join(TYPES)}")
    return tuple(TYPES[name] for name in names)
