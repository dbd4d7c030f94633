"""The header reader agrees with the gguf library, and takes any damage for damage."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.engines.base import EngineError
from serving.engines.gguf_header import metadata


def test_agrees_with_what_was_written(make_gguf: Callable[..., Path]) -> None:
    """Numbers, flags and text are read; arrays of strings and long ones are skipped, and what follows is found."""
    found = dict(metadata(make_gguf()))
    assert found["general.architecture"] == "llama"
    assert found["llama.block_count"] == 4
    assert found["tokenizer.chat_template"] == "{{ messages }}"
    assert found["llama.rope.freq_base"] == 0.5
    assert found["tokenizer.ggml.add_bos_token"] is True
    assert not {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"} & found.keys()


def test_short_arrays_are_kept(tmp_path: Path) -> None:
    """One number a layer, as some models give their heads."""
    path = tmp_path / "m.gguf"
    key = b"llama.attention.head_count_kv"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IIQ3I", 9, 4, 3, 1, 2, 3)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry)
    assert dict(metadata(path)) == {key.decode(): [1, 2, 3]}


def test_every_cut_is_an_error_with_a_remedy(make_gguf: Callable[..., Path]) -> None:
    """Wherever a header is cut off, the error is ours and names the file."""
    path = make_gguf()
    whole = path.read_bytes()
    for size in {*range(0, 200), *range(200, len(whole), 997)} - {len(whole)}:
        path.write_bytes(whole[:size])
        with pytest.raises(EngineError, match=r"model\.gguf cannot be read.*registry verify"):
            dict(metadata(path))


@pytest.mark.parametrize(
    "content",
    [
        b"not a model",
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 99),
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + struct.pack("<Q", 1)
        + b"k"
        + struct.pack("<IIQ", 9, 8, 1 << 62),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 62),
    ],
    ids=["text", "version 1", "endless name", "unknown type", "endless array", "endless metadata"],
)
def test_nonsense_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    """Lengths that lie are found out without reading or reserving what they claim."""
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    began = time.monotonic()
    with pytest.raises(EngineError):
        dict(metadata(path))
    assert time.monotonic() - began < 1


def test_no_such_file(tmp_path: Path) -> None:
    """A file that is not there is said not to be there."""
    with pytest.raises(EngineError, match="No such file"):
        dict(metadata(tmp_path / "absent.gguf"))
