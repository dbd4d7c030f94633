"""Fixtures of the engines' tests: real weights, an engine on them, and a GGUF file that is nothing but its header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from gguf import GGUFWriter

from tests.engines.real_engine import RunningEngine, released, running


@pytest.fixture(scope="session")
def full_model() -> Path:
    """The full tier's weights."""
    return released("full")


@pytest.fixture(scope="session")
def engine(full_model: Path) -> Iterator[RunningEngine]:
    """One engine on them, for all tests that leave it as it is."""
    with running(full_model) as client:
        yield client


MakeGguf = Callable[..., Path]


@pytest.fixture
def make_gguf(tmp_path: Path) -> MakeGguf:
    """Writes a GGUF file with the metadata of a small Llama, changed by keywords, and no tensors."""

    def make(
        name: str = "model.gguf",
        *,
        num_bytes: int = 0,
        tokens: Sequence[str] = ("a", "bc", "déf"),
        **changes: int,
    ) -> Path:
        path = tmp_path / name
        shape = {
            "context_length": 4096,
            "block_count": 4,
            "embedding_length": 64,
            "attention.head_count": 8,
            "attention.head_count_kv": 2,
        } | {key.replace("__", "."): value for key, value in changes.items()}
        writer = GGUFWriter(path, "llama")
        for key, value in shape.items():
            writer.add_uint32(f"llama.{key}", value)
        writer.add_chat_template("{{ messages }}")
        writer.add_array("tokenizer.ggml.tokens", tokens)
        writer.add_array("tokenizer.ggml.token_type", list(range(5000)))
        writer.add_float32("llama.rope.freq_base", 0.5)
        writer.add_bool("tokenizer.ggml.add_bos_token", True)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        if num_bytes:
            with path.open("r+b") as file:
                file.truncate(num_bytes)
        return path

    return make
