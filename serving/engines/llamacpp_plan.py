"""Threads, slots and context of a llama.cpp engine: what the settings say, and for the rest what the machine allows.

The rule, for what is left open:

- *threads*, for prompts and for several streams at once: every core, for each engine. Threads that wait without
  spinning (`llamacpp.PASSIVE_WAIT`) lend their cores to the other tier's: alone a tier has the machine, two share it.
- *threads_alone*, for one stream: the same, but one where the weights are under `SMALL_MODEL_BYTES`: there the threads
  would take longer to meet than to compute. A lone stream of the 135M model at Q4_0: 130 tokens/s, with two threads 88.
- *context_tokens*: what the model was trained on, at most `MAX_CONTEXT_TOKENS`.
- *slots*: `MAX_SLOTS`, where memory holds that many contexts at once. Each slot can always reach the whole context: the
  memory is reserved at the start, so a long request never fails because others are long as well.
- *prompt_cache_bytes*: an eighth of the engine's share of memory, at most 8 GiB: prompts of earlier turns, kept when
  their slot is given away.
- *memory*: an engine's share is nine tenths of what was free at the start, divided by the engines that share it. What
  weights, activations, draft and prompt cache leave of it is for contexts; too little for one shortens the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final

from serving.engines.base import EngineError
from serving.engines.gguf_header import metadata
from serving.engines.machine import Machine

MAX_SLOTS: Final = 8
"""On two AVX2 cores a 135M model gives 90 tokens/s alone, 198 at 8 streams, 238 at 16: eight is where it flattens."""
MAX_CONTEXT_TOKENS: Final = 8192
MIN_CONTEXT_TOKENS: Final = 512
MAX_PROMPT_CACHE_BYTES: Final = 8 << 30
COMPUTE_BYTES: Final = 384 << 20
"""Activations and logits of a batch, the interpreter, and the like."""
SMALL_MODEL_BYTES: Final = 256 << 20
BYTES_PER_ELEMENT: Final = 2.0  # of the key-value cache: float16
SHARE_OF_FREE_MEMORY: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What the plan needs to know of a model."""

    file_bytes: int
    trained_context_tokens: int
    kv_bytes_per_token: int
    draft_bytes: int = 0
    """Weights and activations of a draft that runs beside it; `kv_bytes_per_token` has its keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the operator laid down; None leaves it to the plan."""

    threads: int | None = None
    threads_alone: int | None = None
    slots: int | None = None
    context_tokens: int | None = None
    prompt_cache_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the engine is started with, and why."""

    threads: int
    threads_alone: int
    slots: int
    context_tokens: int
    prompt_cache_bytes: int
    reasons: Mapping[str, str]


def read_shape(path: Path, *, bytes_per_element: float = BYTES_PER_ELEMENT) -> ModelShape:
    """The shape of the model in a GGUF file.

    Args:
        path: the file.
        bytes_per_element: of keys and values.

    Raises:
        EngineError: the file is absent or no GGUF model.
    """
    found = dict(metadata(path))
    architecture = str(found.get("general.architecture", ""))

    def number(name: str, default: int) -> int:
        value = found.get(f"{architecture}.{name}", default)
        return int(max(value)) if isinstance(value, list) else int(value)

    width = number("embedding_length", 4096)
    num_heads = number("attention.head_count", 1) or 1
    num_kv_heads = number("attention.head_count_kv", num_heads)
    head = width // num_heads
    per_layer = num_kv_heads * (number("attention.key_length", head) + number("attention.value_length", head))
    return ModelShape(
        file_bytes=path.stat().st_size,
        trained_context_tokens=number("context_length", MAX_CONTEXT_TOKENS),
        kv_bytes_per_token=ceil(number("block_count", 32) * per_layer * bytes_per_element),
    )


def with_draft(shape: ModelShape, draft: ModelShape) -> ModelShape:
    """The model with one that drafts for it: both read the whole context."""
    return replace(
        shape,
        trained_context_tokens=min(shape.trained_context_tokens, draft.trained_context_tokens),
        kv_bytes_per_token=shape.kv_bytes_per_token + draft.kv_bytes_per_token,
        draft_bytes=draft.file_bytes + COMPUTE_BYTES,
    )


def make_plan(wishes: Wishes, shape: ModelShape, machine: Machine, *, num_sharing: int) -> Plan:
    """The plan for one of `num_sharing` engines on this machine.

    Raises:
        EngineError: not even the smallest context fits, or more context is asked for than the model was trained on.
    """
    share = int(machine.memory_bytes * SHARE_OF_FREE_MEMORY) // num_sharing
    cache_bytes, why_cache = _prompt_cache(wishes, share)
    for_contexts = share - cache_bytes - shape.file_bytes - COMPUTE_BYTES - shape.draft_bytes
    context_tokens, why_context = _context(wishes, shape, for_contexts)
    slots, why_slots = _slots(wishes, context_tokens * shape.kv_bytes_per_token, for_contexts)
    threads = wishes.threads or machine.num_cores
    why_threads = "set" if wishes.threads else f"each of {machine.num_cores} cores that this process may use"
    threads_alone, why_alone = _threads_alone(wishes, shape, threads, why_threads)
    return Plan(
        threads=threads,
        threads_alone=threads_alone,
        slots=slots,
        context_tokens=context_tokens,
        prompt_cache_bytes=cache_bytes,
        reasons={
            "threads": why_threads,
            "threads_alone": why_alone,
            "slots": why_slots,
            "context_tokens": why_context,
            "prompt_cache_bytes": why_cache,
        },
    )


def _threads_alone(wishes: Wishes, shape: ModelShape, threads: int, why_threads: str) -> tuple[int, str]:
    if wishes.threads_alone is not None:
        return wishes.threads_alone, "set"
    if wishes.threads is None and shape.file_bytes < SMALL_MODEL_BYTES:
        return 1, "more would wait for one another, in so small a model"
    return threads, why_threads


def _context(wishes: Wishes, shape: ModelShape, for_contexts: int) -> tuple[int, str]:
    trained = shape.trained_context_tokens
    if wishes.context_tokens is not None:
        if wishes.context_tokens > trained:
            raise EngineError(
                f"engine.context_tokens is {wishes.context_tokens:,}, but the model was trained on {trained:,} tokens: "
                "lower it"
            )
        return wishes.context_tokens, "set"
    context = min(trained, MAX_CONTEXT_TOKENS)
    why = (
        f"the model's {trained:,}"
        if context == trained
        else f"the model's {trained:,}, capped; set it for more"
    )
    fitting = for_contexts // shape.kv_bytes_per_token
    if fitting >= context:
        return context, why
    shortened = fitting // 256 * 256
    if shortened < MIN_CONTEXT_TOKENS:
        raise EngineError(
            f"the model lacks {_gib(MIN_CONTEXT_TOKENS * shape.kv_bytes_per_token - for_contexts)} of memory: "
            "free some, or take a smaller or more quantised one"
        )
    return shortened, f"shortened from {context:,}: free memory holds no more"


def _slots(wishes: Wishes, context_bytes: int, for_contexts: int) -> tuple[int, str]:
    if wishes.slots is not None:
        return wishes.slots, "set"
    fitting = max(1, for_contexts // context_bytes)
    if fitting >= MAX_SLOTS:
        return MAX_SLOTS, "more streams at once hardly give more tokens/s"
    return fitting, f"free memory holds {fitting} contexts of {_gib(context_bytes)}"


def _prompt_cache(wishes: Wishes, share: int) -> tuple[int, str]:
    if wishes.prompt_cache_mib is not None:
        return wishes.prompt_cache_mib << 20, "set"
    return min(share // 8, MAX_PROMPT_CACHE_BYTES), "an eighth of the engine's share of free memory"


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
