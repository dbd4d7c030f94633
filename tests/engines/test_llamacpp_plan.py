"""How threads, slots and context are chosen: worked numbers, and laws of the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.engines.base import EngineError
from serving.engines.llamacpp_plan import (
    COMPUTE_BYTES,
    MAX_SLOTS,
    MIN_CONTEXT_TOKENS,
    ModelShape,
    Wishes,
    make_plan,
    read_shape,
)
from serving.engines.machine import Machine

MIB = 1 << 20
GIB = 1 << 30
SHAPE = ModelShape(file_bytes=100 * MIB, trained_context_tokens=8192, kv_bytes_per_token=23_040)


def test_shape_of_a_model(make_gguf: Callable[..., Path]) -> None:
    """Cache bytes a token: layers × kv heads × (key + value) × 2; here 4 × 2 × (8 + 8) × 2 = 256."""
    path = make_gguf()
    shape = read_shape(path)
    assert shape.kv_bytes_per_token == 256
    assert shape.trained_context_tokens == 4096
    assert shape.file_bytes == path.stat().st_size


def test_heads_wider_than_the_model(make_gguf: Callable[..., Path]) -> None:
    """A model that names the length of its keys and values is taken at its word: 4 × 2 × (32 + 16) × 2 = 768."""
    path = make_gguf(attention__key_length=32, attention__value_length=16)
    assert read_shape(path).kv_bytes_per_token == 768


def test_a_small_model_on_a_laptop() -> None:
    """Two engines on two cores and 22 GiB: both cores, eight slots, the model's whole context."""
    plan = make_plan(Wishes(), SHAPE, Machine(num_cores=2, memory_bytes=22 * GIB), num_sharing=2)
    assert (plan.threads, plan.slots, plan.context_tokens) == (2, MAX_SLOTS, 8192)


@pytest.mark.parametrize(("file_bytes", "threads_alone"), [(100 * MIB, 1), (4 * GIB, 16)])
def test_a_lone_stream_of_a_small_model_gets_one_thread(file_bytes: int, threads_alone: int) -> None:
    """Where a token takes less time than the threads need to meet, one is faster; batches get every core."""
    shape = replace(SHAPE, file_bytes=file_bytes)
    plan = make_plan(Wishes(), shape, Machine(num_cores=16, memory_bytes=64 * GIB), num_sharing=1)
    assert (plan.threads, plan.threads_alone) == (16, threads_alone)


def test_little_memory_means_fewer_slots() -> None:
    """2 GiB: share 1,843 MiB, less 230 for prompts, 100 and 384 leave 1,129: six contexts of 180 MiB."""
    plan = make_plan(Wishes(), SHAPE, Machine(num_cores=4, memory_bytes=2 * GIB), num_sharing=1)
    assert (plan.slots, plan.context_tokens) == (6, 8192)
    assert "6 contexts of 0.2 GiB" in plan.reasons["slots"]


def test_less_memory_means_a_shorter_context() -> None:
    """700 MiB hold not even one context: it is cut to what fits, in steps of 256."""
    plan = make_plan(Wishes(), SHAPE, Machine(num_cores=4, memory_bytes=700 * MIB), num_sharing=1)
    assert plan.slots == 1
    assert plan.context_tokens == 2816
    assert "shortened from 8,192" in plan.reasons["context_tokens"]


def test_no_memory_is_an_error_that_says_how_much_is_lacking() -> None:
    """Where not even 512 tokens fit, nothing is started."""
    with pytest.raises(EngineError, match=r"lacks 0\.\d GiB of memory.*smaller or more quantised"):
        make_plan(Wishes(), SHAPE, Machine(num_cores=4, memory_bytes=400 * MIB), num_sharing=1)


def test_more_context_than_trained_is_refused() -> None:
    """Beyond what it was trained on a model talks nonsense; the limit is named."""
    with pytest.raises(EngineError, match="trained on 8,192"):
        make_plan(Wishes(context_tokens=16_384), SHAPE, Machine(2, 22 * GIB), num_sharing=1)


machines = st.builds(Machine, num_cores=st.integers(1, 128), memory_bytes=st.integers(1 * GIB, 512 * GIB))
shapes = st.builds(
    ModelShape,
    file_bytes=st.integers(MIB, 64 * MIB),
    trained_context_tokens=st.integers(512, 200_000),
    kv_bytes_per_token=st.integers(1024, 200_000),
)


@given(machines, shapes, st.integers(1, 3))
def test_what_is_chosen_fits(machine: Machine, shape: ModelShape, num_sharing: int) -> None:
    """Weights, contexts of all slots and prompt cache of every engine together stay within the machine's memory."""
    try:
        plan = make_plan(Wishes(), shape, machine, num_sharing=num_sharing)
    except EngineError:
        return
    contexts = plan.slots * plan.context_tokens * shape.kv_bytes_per_token
    used = shape.file_bytes + contexts + plan.prompt_cache_bytes + COMPUTE_BYTES
    assert used * num_sharing <= machine.memory_bytes
    assert 1 <= plan.slots <= MAX_SLOTS
    assert MIN_CONTEXT_TOKENS <= plan.context_tokens <= shape.trained_context_tokens


@given(machines, shapes, st.integers(0, 64 * GIB))
def test_more_memory_never_gives_less(machine: Machine, shape: ModelShape, more: int) -> None:
    """Memory buys context first, then slots."""
    larger = Machine(machine.num_cores, machine.memory_bytes + more)
    try:
        before = make_plan(Wishes(), shape, machine, num_sharing=1)
    except EngineError:
        return
    after = make_plan(Wishes(), shape, larger, num_sharing=1)
    assert (after.context_tokens, after.slots) >= (before.context_tokens, before.slots)


@given(machines, st.integers(1, 64), st.integers(1, 32), st.integers(256, 8192), st.integers(0, 999))
def test_the_operator_is_obeyed(
    machine: Machine, threads: int, slots: int, context: int, cache_mib: int
) -> None:
    """What is laid down is not second-guessed."""
    wishes = Wishes(threads=threads, slots=slots, context_tokens=context, prompt_cache_mib=cache_mib)
    plan = make_plan(wishes, SHAPE, machine, num_sharing=2)
    assert (plan.threads, plan.slots, plan.context_tokens) == (threads, slots, context)
    assert plan.threads_alone == threads
    assert plan.prompt_cache_bytes == cache_mib * MIB
    assert set(plan.reasons.values()) == {"set"}
