"""Types are known by name, and by no other."""

from __future__ import annotations

import pytest

from distill.quantization.types import TYPES, UnknownTypeError, parse_types
from serving.engines.requantize import FILE_TYPES


def test_parsed() -> None:
    """In their order, each once; files are called after model and type."""
    kinds = parse_types("w4a16, q4_k,w4a16")
    assert [kind.name for kind in kinds] == ["w4a16", "q4_k"]
    assert [kind.file_name("m") for kind in kinds] == ["m-w4a16", "m-q4_k.gguf"]


@pytest.mark.parametrize("text", ["q8_0,q3_k", "int4", "", " , "])
def test_unknown_ones_are_refused(text: str) -> None:
    """With those that there are."""
    with pytest.raises(UnknownTypeError, match="take from q8_0, "):
        parse_types(text)


def test_every_gguf_type_can_be_written() -> None:
    """And all that can be written are offered."""
    offered = {kind.quantization for kind in TYPES.values() if hasattr(kind, "quantization")}
    assert offered == set(FILE_TYPES)
