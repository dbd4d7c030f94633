"""How llama.cpp computes: what is refused, and that both ways of running it are told the same."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from serving.engines import llamacpp_server
from serving.engines.llamacpp import LlamaCppSettings
from serving.engines.llamacpp_compute import ComputeSettings, binary_arguments, embedded_arguments

ALL = ComputeSettings(
    batch_tokens=256,
    ubatch_tokens=64,
    flash_attention="on",
    kv_cache_type="q8_0",
    repack=False,
    load="copy",
)
PLAN = ["--model=m", "--alias=a", "--port=1", "--threads=2", "--threads-alone=1", "--slots=2", "--context-tokens=512",
        "--prompt-cache-mib=0", "--temperature=0", "--top-p=1", "--top-k=0", "--min-p=0"]  # fmt: skip


def test_what_is_left_out_is_not_said() -> None:
    """llama.cpp's own choice stands, whatever it will be in its next version."""
    assert embedded_arguments(ComputeSettings()) == binary_arguments(ComputeSettings(repack=True)) == []


def test_a_binary_is_told_by_its_own_flags() -> None:
    """As `llama-server --help` has them."""
    assert " ".join(binary_arguments(ALL)) == (
        "--batch-size 256 --ubatch-size 64 --flash-attn on --cache-type-k q8_0 --cache-type-v q8_0 "
        "--load-mode none --no-repack"
    )


def test_the_engine_inside_is_told_the_same() -> None:
    """Each member arrives in llama.cpp's own parameters; without them these stay what they were."""
    import xllamacpp

    def params(compute: ComputeSettings) -> Any:
        args = llamacpp_server._parser().parse_args([*PLAN, *embedded_arguments(compute)])
        with patch.dict(os.environ, {llamacpp_server.KEY_VARIABLE: "k"}):
            return llamacpp_server._params(xllamacpp, args)

    told, untold, own = params(ALL), params(ComputeSettings()), xllamacpp.CommonParams()
    assert (told.n_batch, told.n_ubatch, told.no_extra_bufts) == (256, 64, True)
    assert told.flash_attn_type == xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert told.cache_type_k == told.cache_type_v == xllamacpp.ggml_type.GGML_TYPE_Q8_0
    assert told.load_mode == xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    for name in ("n_batch", "n_ubatch", "no_extra_bufts", "flash_attn_type", "cache_type_k", "load_mode"):
        assert getattr(untold, name) == getattr(own, name)
        assert getattr(told, name) != getattr(own, name)


def test_a_rounded_cache_takes_half_the_memory() -> None:
    """So that the plan gives it more slots where memory is short."""
    assert ComputeSettings().kv_bytes_per_element == 2
    assert ALL.kv_bytes_per_element == pytest.approx(1.0625)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ({"ubatch_tokens": 4096}, r"a part of a batch of 2,048: raise `batch_tokens`"),
        ({"batch_tokens": 16}, "greater than or equal to 32"),
        ({"kv_cache_type": "q8_0", "flash_attention": "off"}, "needs flash attention"),
        ({"kv_cache_type": "q4_0"}, "'f16' or 'q8_0'"),
        ({"prio": "high"}, "Extra inputs"),
    ],
)
def test_what_cannot_be(compute: dict[str, Any], message: str) -> None:
    """Combinations that llama.cpp would refuse or trim are refused with the remedy."""
    with pytest.raises(ValidationError, match=message):
        ComputeSettings.model_validate(compute)


def test_inputs_of_embeddings_stay_whole() -> None:
    """Their batches are the whole context."""
    with pytest.raises(ValidationError, match="takes each input in one batch"):
        LlamaCppSettings.model_validate({"embeddings": True, "compute": {"batch_tokens": 512}})
