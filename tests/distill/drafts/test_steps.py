"""What is timed is a step, and how it is timed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from distill.cost_model import widths
from distill.drafts.engine_steps import engine_steps
from distill.drafts.head import new_head
from distill.drafts.rows import CausalRows
from distill.drafts.steps import head_steps, lookup_s, model_steps, timed_in_turn
from distill.drafts.vocabulary import DraftVocabulary
from serving.engines.base import EngineError
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.to_gguf import convert_to_gguf

torch.set_num_threads(1)


class _Clock:
    """Moves when a step moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def step(self, seconds: Iterator[float]) -> None:
        self.now += next(seconds)


def test_median_of_turns() -> None:
    """The first turn does not count, one disturbance changes nothing, and steps come in turn."""
    clock, turns = _Clock(), []
    slow, fast = iter([99.0, 2.0, 2.0, 50.0]), iter([99.0, 1.0, 70.0, 1.0])

    def one() -> None:
        turns.append("a")
        clock.step(slow)

    def other() -> None:
        turns.append("b")
        clock.step(fast)

    assert timed_in_turn({"a": one, "b": other}, clock, num_repetitions=3) == {"a": 2.0, "b": 1.0}
    assert "".join(turns) == "abababab"


@torch.no_grad()
def test_a_models_step() -> None:
    """A token for every sequence: the likeliest behind an empty past, which the model itself says too."""
    model = tiny_llama()
    steps = model_steps(model, [1, 3], context_tokens=0)
    hidden = model(torch.tensor([2]), torch.tensor([0]), CausalRows(1))
    chosen = steps[3]()
    assert isinstance(chosen, torch.Tensor)
    assert chosen.shape == (3,)
    assert int(chosen[2]) == int(model.logits(hidden).argmax())


@torch.no_grad()
def test_a_heads_step() -> None:
    """A draft id for every sequence."""
    target = tiny_llama(tiny_shape(num_layers=7), dtype=torch.float32)
    head = new_head(target, DraftVocabulary((1, 5, 9), 61), (2, 3, 4), seed=0)
    chosen = head_steps(head, target, [1, 4], context_tokens=8)[4]()
    assert isinstance(chosen, torch.Tensor)
    assert chosen.shape == (4,)
    assert int(chosen.max()) < 3


def test_look_up() -> None:
    """A round's one look-up is parted among its drafts."""
    ticks = iter(range(1000))
    assert lookup_s([1, 2], 4, context_tokens=8, clock=lambda: float(next(ticks))) == {1: 0.25, 2: 0.25}


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_the_engine(tmp_path: Path) -> None:
    """llama.cpp, as the gateway starts it, says how long steps of each width take; it has ended when they are known."""
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=2, hidden_size=64, head_size=32,
                                                   num_heads=2, num_kv_heads=1, max_positions=1024))  # fmt: skip
    convert_to_gguf(tmp_path / "tiny", tmp_path / "tiny.gguf")
    found = engine_steps(
        tmp_path / "tiny.gguf", widths([1], [1, 2]), tmp_path / "log", threads=1, num_tokens=8
    )
    assert list(found) == [1, 2, 4]
    assert all(0 < seconds < 10 for seconds in found.values())
    with pytest.raises(EngineError):
        engine_steps(tmp_path / "none.gguf", [1], tmp_path / "log")
