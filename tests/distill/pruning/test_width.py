"""Channels are chosen by what their going costs: the estimate is the formula's, and what it finds is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from distill.calibration import CalibrationText
from distill.pruning.fidelity import Fidelity
from distill.pruning.pruned import with_channels
from distill.pruning.width import Channels, dearest, importance, unmeasured, widths_between
from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.model.llama import Llama

torch.set_num_threads(1)
TEXTS = [
    CalibrationText("a", (1, 5, 9), (13, 2, 7, 11, 3, 8)),
    CalibrationText("a", (1, 5), (30, 31, 32, 6)),
    CalibrationText("b", (8,), (4, 9, 10, 12)),
]


@pytest.fixture
def model() -> Llama:
    return tiny_llama(replace(tiny_shape(), intermediate_size=48), dtype=torch.float32)


def everything(model: Llama) -> Channels:
    return (tuple(range(model.shape.intermediate_size)),) * model.shape.num_layers


def without(model: Llama, layer: int, channel: int) -> Llama:
    """A copy in which this channel says nothing."""
    copy = with_channels(model, everything(model))
    with torch.no_grad():
        copy.model.layers[layer].mlp.down_proj.weight[:, channel] = 0
    return copy


@torch.no_grad()
def test_dead_channels_are_found_and_cost_nothing(model: Llama) -> None:
    """Channels that say nothing have cost 0, are the ones that go, and the rest says what the whole did."""
    dead = {0: [3, 17, 40], 1: [0, 1, 47], 2: [5, 21, 30]}
    for layer, channels in dead.items():
        model.model.layers[layer].mlp.down_proj.weight[:, channels] = 0
    costs = importance(model, TEXTS)
    kept = dearest(costs, 45)
    for layer, channels in dead.items():
        assert costs[layer, channels].tolist() == [0, 0, 0]
        assert set(range(48)) - set(kept[layer]) == set(channels)
    narrow = with_channels(model, kept)
    assert narrow.shape.intermediate_size == 45
    tokens = torch.arange(12)
    torch.testing.assert_close(logits_of(narrow, tokens), logits_of(model, tokens))
    assert Fidelity(model, TEXTS).score_of(narrow).divergence == pytest.approx(0, abs=1e-6)


def test_the_estimate_is_what_leaving_a_channel_out_costs(model: Llama) -> None:
    """Over many draws: cost of a channel ≈ divergence when it alone says nothing, as long as that is small."""
    num_draws = 300
    costs = sum(importance(model, TEXTS, seed=seed) for seed in range(num_draws)) / num_draws
    assert isinstance(costs, torch.Tensor)
    fidelity = Fidelity(model, TEXTS)
    places = sum(len(text.answer) for text in TEXTS)
    for layer, channel in ((0, 4), (1, 30), (2, 11)):
        measured = places * fidelity.score_of(without(model, layer, channel)).divergence
        assert float(costs[layer, channel]) == pytest.approx(measured, rel=0.35)


def test_chosen_by_cost_is_nearer_than_by_position_or_chance(model: Llama) -> None:
    """On the texts that were read, at half of the channels."""
    fidelity = Fidelity(model, TEXTS)
    costs = sum(importance(model, TEXTS, seed=seed) for seed in range(8))
    assert isinstance(costs, torch.Tensor)
    chosen = fidelity.score_of(with_channels(model, dearest(costs, 24)))
    for kept in unmeasured(model.shape.num_layers, 48, 24).values():
        assert chosen.divergence < fidelity.score_of(with_channels(model, kept)).divergence


def test_the_model_is_left_as_it_was(model: Llama) -> None:
    """Its weights, which of them move, and what it says; the same seed finds the same."""
    model.model.norm.weight.requires_grad_(False)
    moved = [weight.requires_grad for weight in model.parameters()]
    before = logits_of(model, torch.arange(5))
    first = importance(model, TEXTS, seed=3)
    assert torch.equal(first, importance(model, TEXTS, seed=3))
    assert not torch.equal(first, importance(model, TEXTS, seed=4))
    assert [weight.requires_grad for weight in model.parameters()] == moved
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.equal(logits_of(model, torch.arange(5)), before)


def test_widths_between_are_whole_blocks() -> None:
    """Evenly down to what is asked for, each once."""
    assert widths_between(1536, 1024, 4) == [1408, 1280, 1152, 1024]
    assert widths_between(1536, 1000, 3) == [1344, 1184, 1000]
    assert widths_between(48, 40, 4) == [40]


@pytest.mark.parametrize("number", [0, 49])
def test_numbers_that_cannot_be_are_refused(model: Llama, number: int) -> None:
    """None, and more than there are; and no texts."""
    with pytest.raises(ValueError, match="keep some"):
        dearest(torch.zeros(3, 48), number)
    with pytest.raises(ValueError, match="keep some"):
        unmeasured(3, 48, number)
    with pytest.raises(ValueError, match="there must be one"):
        importance(model, [])
