"""Requantising: bounded error, everything else as it was. On a small synthetic model with every kind of metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize, quantize

from serving.engines.requantize import RequantizeError, open_model, requantize, tokenizer_sha256

BLOCK = 32
ERROR_SHARE = {"Q4_0": 1 / 8, "Q4_1": 1 / 15, "Q5_0": 1 / 16, "Q5_1": 1 / 31, "Q8_0": 1 / 254}
"""Largest error as a share of a block's largest magnitude: a step where zero is a level (Q4_0, Q5_0), else half."""


def write_model(path: Path, *, seed: int = 0, **metadata: tuple[Any, ...]) -> dict[str, Any]:
    """Write a model with one tensor of each sort; the tensors as floats."""
    random = np.random.default_rng(seed)
    floats = {
        "token_embd.weight": random.standard_normal((96, 64), np.float32),
        "blk.0.attn_q.weight": random.standard_normal((64, 64), np.float32),
        "blk.0.ffn_up.weight": random.standard_normal((128, 64), np.float32),
        "blk.0.attn_norm.weight": random.standard_normal(64, np.float32),
        "blk.0.odd.weight": random.standard_normal((4, 20), np.float32),
    }
    kinds = {
        "token_embd.weight": Kind.Q8_0,
        "blk.0.attn_q.weight": Kind.Q4_1,
        "blk.0.ffn_up.weight": Kind.F16,
    }
    writer = GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_string("tokenizer.chat_template", "{{ messages }}")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "né", "▁x"])
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1])
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_float32("llama.rope.freq_base", 100000.0)
    writer.add_uint64("llama.context_length", 2**40)
    writer.add_int8("general.small", -3)
    writer.add_float64("general.precise", 0.1)
    for key, value in metadata.items():
        writer.add_key_value(key.replace("__", "."), *value)
    for name, values in floats.items():
        kind = kinds.get(name, Kind.F32)
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return floats


def metadata_of(path: Path) -> dict[str, tuple[Any, list[GGUFValueType]]]:
    """Every key with its value and types."""
    return {key: (field.contents(), field.types) for key, field in GGUFReader(path).fields.items()}


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "source.gguf"
    write_model(path)
    return path


@pytest.mark.parametrize("quantization", sorted(ERROR_SHARE))
def test_error_stays_within_the_step(source: Path, tmp_path: Path, quantization: str) -> None:
    """Each weight is off by no more than the format's rounding, relative to its block, and not exact either."""
    target = tmp_path / "target.gguf"
    requantize(open_model(source), target, quantization=quantization)
    before = {tensor.name: tensor for tensor in GGUFReader(source).tensors}
    after = {tensor.name: tensor for tensor in GGUFReader(target).tensors}
    for name in ("blk.0.attn_q.weight", "blk.0.ffn_up.weight"):
        assert after[name].tensor_type == Kind[quantization]
        was = dequantize(before[name].data, before[name].tensor_type).reshape(-1, BLOCK)
        now = dequantize(after[name].data, after[name].tensor_type).reshape(-1, BLOCK)
        error_share = np.abs(now - was) / np.abs(was).max(axis=1, keepdims=True)
        # scales are stored in half precision, which adds up to one part in 2048 of the magnitude itself
        assert error_share.max() <= ERROR_SHARE[quantization] + 2 / 2048
        assert error_share.max() > 0 or Kind[quantization] == before[name].tensor_type


def test_embedding_norms_and_odd_rows_stay_bit_for_bit(source: Path, tmp_path: Path) -> None:
    """The embedding keeps its Q8_0 blocks, vectors and rows that do not divide into blocks their floats."""
    target = tmp_path / "target.gguf"
    requantize(open_model(source), target, quantization="Q4_0")
    before, after = GGUFReader(source).tensors, GGUFReader(target).tensors
    assert [tensor.name for tensor in after] == [tensor.name for tensor in before]
    assert [tuple(tensor.shape) for tensor in after] == [tuple(tensor.shape) for tensor in before]
    kept = 0
    for was, now in zip(before, after, strict=True):
        if was.name in {"token_embd.weight", "blk.0.attn_norm.weight", "blk.0.odd.weight"}:
            assert now.tensor_type == was.tensor_type
            assert now.data.tobytes() == was.data.tobytes()
            kept += 1
    assert kept == 3


def test_a_tied_embedding_stays_tied(source: Path, tmp_path: Path) -> None:
    """No output matrix appears where the source has none, and the file shrinks accordingly."""
    target = tmp_path / "target.gguf"
    requantize(open_model(source), target, quantization="Q4_0")
    assert "output.weight" not in {tensor.name for tensor in GGUFReader(target).tensors}
    assert target.stat().st_size < source.stat().st_size


def test_metadata_is_equal_but_for_the_quantisation(source: Path, tmp_path: Path) -> None:
    """Every key keeps its value and its type; only what names the quantisation changes."""
    target = tmp_path / "target.gguf"
    requantize(open_model(source), target, quantization="Q4_0")
    before, after = metadata_of(source), metadata_of(target)
    assert after.pop("general.file_type")[0] == gguf.LlamaFileType.MOSTLY_Q4_0
    assert after.pop("general.quantization_version")[0] == gguf.GGML_QUANT_VERSION
    del before["general.file_type"]
    del before["GGUF.kv_count"], after["GGUF.kv_count"]
    assert after == before


def test_a_chat_template_is_replaced_and_nothing_else(source: Path, tmp_path: Path) -> None:
    """Of two files, with and without a new template, only that key differs; the tokenizer's hash does not."""
    requantize(open_model(source), tmp_path / "a.gguf", quantization="Q8_0")
    requantize(
        open_model(source), tmp_path / "b.gguf", quantization="Q8_0", chat_template="{% for m in messages %}"
    )
    a, b = metadata_of(tmp_path / "a.gguf"), metadata_of(tmp_path / "b.gguf")
    assert {key for key in a if a[key] != b[key]} == {"tokenizer.chat_template"}
    assert b["tokenizer.chat_template"][0] == "{% for m in messages %}"
    assert (
        len(
            {
                tokenizer_sha256(open_model(path))
                for path in (source, tmp_path / "a.gguf", tmp_path / "b.gguf")
            }
        )
        == 1
    )


def test_tokenizer_hash_sees_a_changed_token(tmp_path: Path) -> None:
    """Another special id is another tokenizer; other weights are not."""
    for name, seed, bos in (("a", 0, 1), ("b", 1, 1), ("c", 0, 2)):
        metadata = {"tokenizer__ggml__bos_token_id": (bos, GGUFValueType.UINT32)}
        write_model(tmp_path / name, seed=seed, **metadata)
    a, b, c = (tokenizer_sha256(open_model(tmp_path / name)) for name in "abc")
    assert a == b != c


def test_alignment_is_kept(tmp_path: Path) -> None:
    """A source with another alignment gives a file that reads back with it."""
    source, target = tmp_path / "source.gguf", tmp_path / "target.gguf"
    requantize_from = tmp_path / "plain.gguf"
    write_model(requantize_from)
    writer = GGUFWriter(source, "llama")
    writer.add_custom_alignment(64)
    for tensor in GGUFReader(requantize_from).tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    requantize(open_model(source), target, quantization="Q4_0")
    after = GGUFReader(target)
    assert after.alignment == 64
    assert all(tensor.data_offset % 64 == 0 for tensor in after.tensors)


def test_same_source_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    """Requantising is a function: what two machines make has one hash."""
    for name in ("a", "b"):
        requantize(open_model(source), tmp_path / name, quantization="Q4_0")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_progress_counts_every_tensor(source: Path, tmp_path: Path) -> None:
    """The callback hears of each tensor once, in order."""
    heard: list[tuple[int, int]] = []
    requantize(
        open_model(source),
        tmp_path / "target.gguf",
        quantization="Q4_0",
        on_tensor=lambda done, total: heard.append((done, total)),
    )
    assert heard == [(i, 5) for i in range(1, 6)]


@pytest.mark.parametrize("length", [0, 3, 100, 900, -1])
def test_a_cut_file_is_refused(source: Path, length: int) -> None:
    """A file cut anywhere, in its header or its last byte, is named as not whole."""
    data = source.read_bytes()
    cut = source.with_name("cut.gguf")
    cut.write_bytes(data[:length] if length >= 0 else data[: -BLOCK - 20 * 4 * 4])
    with pytest.raises(RequantizeError, match=r"cut\.gguf is not a whole GGUF file"):
        open_model(cut)


def test_what_gguf_cannot_rewrite_is_refused(tmp_path: Path) -> None:
    """Nested arrays, which the library would flatten without a word, are an error that names the key."""
    source = tmp_path / "source.gguf"
    write_model(source, general__nested=([[1, 2], [3]], GGUFValueType.ARRAY, GGUFValueType.ARRAY))
    with pytest.raises(RequantizeError, match=r"general\.nested is a nested"):
        requantize(open_model(source), tmp_path / "target.gguf", quantization="Q4_0")


def test_a_full_disk_says_so(source: Path) -> None:
    """Where the disk is full the system's own error comes through, with its number."""
    with pytest.raises(OSError, match="No space left on device"):
        requantize(open_model(source), Path("/dev/full"), quantization="Q4_0")


def test_q4_k_where_rows_divide(tmp_path: Path) -> None:
    """Rows of 256 become Q4_K, others Q5_0, the embedding stays at Q8_0; with no row of 256 the name would be a lie."""
    random = np.random.default_rng(0)
    rows = {"token_embd.weight": 512, "blk.0.ffn_down.weight": 512, "blk.0.attn_q.weight": 64}
    writer = GGUFWriter(tmp_path / "a.gguf", "llama")
    for name, row in rows.items():
        writer.add_tensor(name, random.standard_normal((8, row), np.float32), raw_dtype=Kind.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    requantize(open_model(tmp_path / "a.gguf"), tmp_path / "b.gguf", quantization="Q4_K")
    found = GGUFReader(tmp_path / "b.gguf")
    kinds = {tensor.name: tensor.tensor_type for tensor in found.tensors}
    assert kinds == {
        "token_embd.weight": Kind.Q8_0, "blk.0.ffn_down.weight": Kind.Q4_K, "blk.0.attn_q.weight": Kind.Q5_0
    }  # fmt: skip
    assert found.get_field("general.file_type").contents() == gguf.LlamaFileType.MOSTLY_Q4_K_S
    write_model(tmp_path / "narrow.gguf")
    with pytest.raises(RequantizeError, match="would be Q5_0 under another name; ask for Q5_0"):
        requantize(open_model(tmp_path / "narrow.gguf"), tmp_path / "c.gguf", quantization="Q4_K")
