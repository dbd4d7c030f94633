"""Early exit: the joint loss is its formula, and what is exported for an exit says what the exit says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from distill.calibration import CalibrationText
from distill.early_exit import (
    Weighting,
    cross_entropy,
    exit_states,
    exits_of,
    joint_loss,
    lines_of,
    standing_alone,
)
from distill.pruning.pruned import write_checkpoint
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint as write_tiny
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.model.llama import Llama
from train.model.weights import load_llama

torch.set_num_threads(1)
TEXTS = [CalibrationText("a", (1, 5), (9, 13, 2)), CalibrationText("a", (1, 5, 30), (31,))]
EXITS = (1, 3, 4)


@pytest.fixture
def model() -> Llama:
    return tiny_llama(tiny_shape(num_layers=4))


@torch.no_grad()
def by_hand(model: Llama, depth: int) -> float:
    """Transformers' cross-entropy of the first layers, text by text."""
    alone = reference_llama(standing_alone(model, depth))
    found = []
    for text in TEXTS:
        token_ids = torch.tensor([text.token_ids])
        logprobs = alone(token_ids).logits[0, len(text.prompt) - 1 : -1].log_softmax(-1)
        found += [-logprobs[i, token] for i, token in enumerate(text.answer)]
    return float(torch.stack(found).mean())


@pytest.mark.parametrize("weighting", Weighting)
def test_the_joint_loss_is_the_weighted_mean(model: Llama, weighting: Weighting) -> None:
    """Each exit's loss is transformers' of the exported layers; the whole is their mean by the exits' shares."""
    (line,) = lines_of(model, TEXTS, per_line=2)
    total, each = joint_loss(
        exit_states(model, line, EXITS), weighting.shares(EXITS), cross_entropy(model, line)
    )
    expected = {depth: by_hand(model, depth) for depth in EXITS}
    assert each == pytest.approx(expected)
    weights = {1: 1, 3: 3, 4: 4} if weighting is Weighting.DEPTH else dict.fromkeys(EXITS, 1)
    mean = sum(weights[depth] * expected[depth] for depth in EXITS) / sum(weights.values())
    assert float(total.detach()) == pytest.approx(mean)


def test_shares_are_one_together() -> None:
    """By depth a deep exit counts more; equally, all count the same."""
    assert Weighting.DEPTH.shares((2, 6)) == {2: 0.25, 6: 0.75}
    assert Weighting.EQUAL.shares((2, 6)) == {2: 0.5, 6: 0.5}


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_exported_checkpoint_says_what_the_exit_says(tmp_path: Path, depth: int) -> None:
    """Written, loaded by transformers and by us, the first layers have the logits of the exit in the joint model."""
    write_tiny(tmp_path / "whole", tiny_shape(vocab_size=80, num_layers=5))
    model = load_llama(tmp_path / "whole")
    (line,) = lines_of(model, TEXTS, per_line=2)
    write_checkpoint(standing_alone(model, depth), tmp_path / "whole", tmp_path / "exit")
    theirs = LlamaForCausalLM.from_pretrained(tmp_path / "exit", dtype=torch.float32).eval()
    with torch.no_grad():
        joint = model.logits(exit_states(model, line, exits_of(5, [1, 2]))[depth])
        alone = load_llama(tmp_path / "exit")
        torch.testing.assert_close(alone.logits(exit_states(alone, line, (depth,))[depth]), joint)
        rows = [
            theirs(torch.tensor([text.token_ids[:-1]])).logits[0, len(text.prompt) - 1 :] for text in TEXTS
        ]
        expected = torch.cat(rows)
    torch.testing.assert_close(joint[line.rows], expected, rtol=1e-4, atol=1e-4)


def test_a_step_moves_every_layer_and_lowers_every_exit(model: Llama) -> None:
    """Gradient reaches all layers, and after some steps each exit knows the texts better than before."""
    (line,) = lines_of(model, TEXTS, per_line=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    told = []
    for _ in range(12):
        total, each = joint_loss(
            exit_states(model, line, EXITS), Weighting.EQUAL.shares(EXITS), cross_entropy(model, line)
        )
        optimizer.zero_grad()
        total.backward()
        told.append(each)
        assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())
        optimizer.step()
    assert all(told[-1][depth] < told[0][depth] for depth in EXITS)


@pytest.mark.parametrize("asked", [[0], [5]])
def test_an_exit_that_is_not_there_is_refused(asked: list[int]) -> None:
    """Before the first layer, and behind the last."""
    with pytest.raises(ValueError, match="no exit behind layer"):
        exits_of(4, asked)
