"""What may be tuned, for each engine: knobs with the values that are tried. Pure.

A knob of llama.cpp is a leaf below `[tiers.NAME.engine]`; a knob of vLLM is an option of its server or, in capitals, a
variable of its environment. The order is that of the search: what mostly matters most comes first, so that a short
search is not spent on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Value = bool | int | str
Setting = Mapping[str, Value]
"""Knob → value; what is absent is as the engine has it."""
NUM_SLOTS: Final = 16
"""As many as streams are measured: more could not be seen."""
VLLM_CPU_KV_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
VLLM_CPU_KV_GIB: Final = 4
"""What a vLLM on CPUs is given where nothing else is said, so that two servers have room beside each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One thing to turn."""

    name: str
    default: Value
    """What the engine does where it is left out: not tried."""
    values: tuple[Value, ...]
    is_lossy: bool = False
    """It rounds by design, so that it changes answers."""

    @property
    def candidates(self) -> tuple[Value, ...]:
        """The values that are not the default."""
        return tuple(value for value in self.values if value != self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the engine would choose on this machine by itself."""

    threads: int
    threads_alone: int
    slots: int


def llamacpp_space(defaults: Defaults) -> tuple[Knob, ...]:
    """The embedded llama.cpp, or a `llama-server`. Members of `serving.engines.llamacpp_compute` beside the plan's."""
    cores = defaults.threads
    return (
        Knob(name="threads_alone", default=defaults.threads_alone, values=_thread_counts(cores)),
        Knob(name="compute.repack", default=True, values=(True, False)),
        Knob(name="compute.flash_attention", default="auto", values=("auto", "off", "on")),
        Knob(name="compute.ubatch_tokens", default=512, values=(64, 128, 256, 512, 1024)),
        Knob(name="compute.batch_tokens", default=2048, values=(512, 2048, 8192)),
        Knob(name="slots", default=defaults.slots, values=(4, 8, NUM_SLOTS)),
        Knob(name="threads", default=cores, values=_thread_counts(cores)),
        Knob(name="compute.load", default="mmap", values=("mmap", "copy", "mlock")),
        Knob(name="compute.kv_cache_type", default="f16", values=("f16", "q8_0"), is_lossy=True),
    )


def vllm_cpu_space() -> tuple[Knob, ...]:
    """vLLM's server on CPUs; `python -m vllm.entrypoints.openai.api_server --help` tells what each does."""
    return (
        Knob(name="enforce-eager", default=False, values=(False, True)),
        Knob(name="compilation-config", default="", values=("", '{"mode": 0}', '{"mode": 1}', '{"mode": 2}')),
        Knob(name="VLLM_CPU_OMP_THREADS_BIND", default="auto", values=("auto", "nobind")),
        *_VLLM_SCHEDULING,
        Knob(name=VLLM_CPU_KV_SPACE, default=VLLM_CPU_KV_GIB, values=(1, VLLM_CPU_KV_GIB, 8)),
    )


def vllm_gpu_space() -> tuple[Knob, ...]:
    """The same on a GPU: which batches are CUDA graphs, and whose attention."""
    return (
        Knob(name="enforce-eager", default=False, values=(False, True)),
        Knob(
            name="compilation-config",
            default="",
            values=(
                "",
                '{"cudagraph_mode": "PIECEWISE"}',
                '{"cudagraph_mode": "FULL_DECODE_ONLY"}',
                '{"cudagraph_mode": "FULL_AND_PIECEWISE"}',
                '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16]}',
            ),
        ),
        Knob(name="attention-backend", default="", values=("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")),
        *_VLLM_SCHEDULING,
    )


_VLLM_SCHEDULING: Final = (
    Knob(name="max-num-seqs", default="", values=(16, 64, 256)),
    Knob(name="max-num-batched-tokens", default="", values=(512, 2048, 8192)),
    Knob(name="enable-prefix-caching", default=True, values=(True, False)),
)
"""An empty default stands for what vLLM chooses by device and model."""


def allowed(
    space: Sequence[Knob], *, only: Sequence[str] = (), fixed: Setting, allows_lossy: bool
) -> tuple[Knob, ...]:
    """The part of a space that may be searched.

    Args:
        space: all of it.
        only: names; all where empty.
        fixed: what is laid down is not searched.
        allows_lossy: knobs that round are.

    Raises:
        ValueError: `only` names what is no knob, or what may not be turned.
    """
    chosen = tuple(
        knob
        for knob in space
        if knob.name not in fixed and (allows_lossy or not knob.is_lossy) and knob.candidates
    )
    names = [knob.name for knob in chosen]
    if unknown := [name for name in only if name not in names]:
        raise ValueError(f"{', '.join(unknown)} cannot be tuned here; what can is {', '.join(names)}")
    return tuple(knob for knob in chosen if not only or knob.name in only)


def words(setting: Setting) -> str:
    """As one reads it."""
    return ", ".join(f"{name}={_word(value)}" for name, value in setting.items()) or "the default"


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _thread_counts(cores: int) -> tuple[int, ...]:
    """One, its doublings up to all cores, half of them, and all but one."""
    powers = (1 << bit for bit in range(cores.bit_length()))
    return tuple(sorted({*powers, max(1, cores // 2), max(1, cores - 1), cores}))
