"""How a llama.cpp engine computes: batches, attention, layout and place of weights. What is absent it chooses.

None of these says *what* is computed, but for `kv_cache_type`, which rounds. Yet sums in another order round elsewhere,
so that a greedy answer may differ where two tokens are as good as equal. `tierwise bench engine --tune` measures them
on a machine and writes down those that pay.

Not here: priorities above normal, since Linux then schedules the engine before the gateway (SCHED_FIFO); pinning to
cores, since two tiers would be pinned to the same; polling, since ggml leaves waiting to OpenMP, which is told by
`llamacpp.PASSIVE_WAIT` to sleep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from serving.engines.base import SettingsNode

DEFAULT_BATCH_TOKENS: Final = 2048
DEFAULT_UBATCH_TOKENS: Final = 512
"""Both are llama.cpp's own."""


class ComputeSettings(SettingsNode):
    """`[tiers.NAME.engine.compute]`; absent members are as llama.cpp has them."""

    batch_tokens: int | None = Field(None, ge=32, le=65536)
    """Of prompts and answers together that one step of the server may take up; 2,048 where absent."""
    ubatch_tokens: int | None = Field(None, ge=32, le=65536)
    """Of these, how many are computed at once: more take more memory; 512 where absent."""
    flash_attention: Literal["auto", "on", "off"] | None = None
    """One fused kernel for attention. "auto", as where absent: wherever the device has it."""
    kv_cache_type: Literal["f16", "q8_0"] | None = None
    """Of keys and values; q8_0 halves their memory and rounds them. Needs flash attention. f16 where absent."""
    repack: bool | None = None
    """Weights interleaved for the CPU's widest instructions when they are loaded; true where absent."""
    load: Literal["mmap", "copy", "mlock"] | None = None
    """Weights mapped from the file, copied into memory, or copied and locked there (needs RLIMIT_MEMLOCK)."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        batch = self.batch_tokens or DEFAULT_BATCH_TOKENS
        ubatch = self.ubatch_tokens or DEFAULT_UBATCH_TOKENS
        if self.ubatch_tokens is not None and ubatch > batch:
            raise ValueError(
                f"`ubatch_tokens` {ubatch:,} is a part of a batch of {batch:,}: raise `batch_tokens`"
            )
        if self.kv_cache_type == "q8_0" and self.flash_attention == "off":
            raise ValueError('`kv_cache_type` "q8_0" needs flash attention: leave `flash_attention` out')
        return self

    @property
    def kv_bytes_per_element(self) -> float:
        """Of keys and values; q8_0 has one float16 scale for each 32."""
        return 34 / 32 if self.kv_cache_type == "q8_0" else 2.0


def embedded_arguments(compute: ComputeSettings) -> list[str]:
    """For `llamacpp_server`."""
    pairs = {
        "--batch-tokens": compute.batch_tokens,
        "--ubatch-tokens": compute.ubatch_tokens,
        "--flash-attention": compute.flash_attention,
        "--kv-cache-type": compute.kv_cache_type,
        "--load": compute.load,
    }
    return _words(pairs) + (["--no-repack"] if compute.repack is False else [])


def binary_arguments(compute: ComputeSettings) -> list[str]:
    """For `llama-server`."""
    pairs = {
        "--batch-size": compute.batch_tokens,
        "--ubatch-size": compute.ubatch_tokens,
        "--flash-attn": compute.flash_attention,
        "--cache-type-k": compute.kv_cache_type,
        "--cache-type-v": compute.kv_cache_type,
        "--load-mode": "none" if compute.load == "copy" else compute.load,
    }
    return _words(pairs) + (["--no-repack"] if compute.repack is False else [])


def _words(pairs: Mapping[str, int | str | None]) -> list[str]:
    return [word for flag, value in pairs.items() if value is not None for word in (flag, str(value))]
