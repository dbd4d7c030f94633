"""Drawing a token: one number decides it, and its probability is the one it was drawn at."""

from __future__ import annotations

import math

import pytest
import torch

from train.rollouts.drawing import draw, uniforms

torch.set_num_threads(1)
LOGITS = torch.tensor([0.5, 0.3, 0.2]).log()


def test_the_number_decides_by_hand() -> None:
    """With probabilities .5, .3, .2 the borders are .5 and .8, and a border belongs to the token above it."""
    numbers = torch.tensor([0.0, 0.4999, 0.5001, 0.7999, 0.8001, 1 - 2**-53], dtype=torch.float64)
    tokens, logprobs = draw(LOGITS.expand(6, 3), numbers, 1.0)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]
    assert logprobs.tolist() == pytest.approx([math.log(p) for p in (0.5, 0.5, 0.3, 0.3, 0.2, 0.2)], abs=1e-6)


def test_temperature_by_hand() -> None:
    """At temperature ½ probabilities go with their squares: .25 : .09 : .04; at 0 the likeliest is taken as at 1."""
    numbers = torch.tensor([0.65, 0.67], dtype=torch.float64)
    tokens, logprobs = draw(LOGITS.expand(2, 3), numbers, 0.5)
    assert tokens.tolist() == [0, 1]
    assert logprobs.tolist() == pytest.approx([math.log(0.25 / 0.38), math.log(0.09 / 0.38)], abs=1e-6)
    tokens, logprobs = draw(LOGITS[None], numbers[:1], 0)
    assert (tokens.item(), logprobs.item()) == (0, pytest.approx(math.log(0.5)))


def test_shares_are_probabilities_over_many_blocks() -> None:
    """On an even grid of numbers every token is drawn as often as its probability says; impossible ones never."""
    logits = torch.randn(700, generator=torch.Generator().manual_seed(0))
    logits[[0, 255, 256, 699]] = float("-inf")
    num = 20_000
    numbers = (torch.arange(num, dtype=torch.float64) + 0.5) / num
    tokens, _ = draw(logits.expand(num, -1), numbers, 1.0)
    counts = torch.bincount(tokens, minlength=700) / num
    torch.testing.assert_close(counts, logits.softmax(-1), rtol=0, atol=1.1 / num)
    for number in (0.0, 1 - 2**-53):
        token = draw(logits[None], torch.tensor([number], dtype=torch.float64), 1.0)[0].item()
        assert math.isfinite(logits[token])


def test_streams_go_on_the_same_way() -> None:
    """A longer stream begins as the shorter one; other seeds have other streams; seeds reach 2⁶³."""
    assert uniforms(7, 100)[:10] == uniforms(7, 10)
    assert uniforms(7, 10) != uniforms(8, 10)
    assert all(0 <= number < 1 for number in uniforms(2**63 - 1, 1000))
