"""The head of a critic: its scale can be undone and moves no value, and the clip is PPO's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from train.value_head import LEAST_DEVIATION, ReturnScale, ValueHead, value_loss


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_scale_by_hand() -> None:
    """The first returns set mean 0.5 and deviation 0.5; the next ones count a twentieth."""
    scale = ReturnScale()
    assert (scale.mean, scale.deviation) == (0.0, 1.0)
    scale.observe(torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert (scale.mean, scale.deviation) == (0.5, 0.5)
    scale.observe(torch.tensor([1.0, 1.0], dtype=torch.float64))
    assert scale.mean == pytest.approx(0.525)
    assert scale.deviation**2 == pytest.approx(0.95 * 0.5 + 0.05 - 0.525**2)


def test_scale_is_invertible() -> None:
    """Units and back give the returns, also where all are equal, whose deviation has a floor."""
    for returns in (torch.rand(9, dtype=torch.float64), torch.full((3,), 0.7, dtype=torch.float64)):
        scale = ReturnScale()
        scale.observe(returns)
        assert scale.deviation >= LEAST_DEVIATION
        torch.testing.assert_close(scale.from_units(scale.to_units(returns)), returns, rtol=0, atol=1e-15)


@pytest.mark.parametrize("width", [0, 8])
def test_moving_the_scale_moves_no_value(width: int) -> None:
    """Whatever returns are taken in, every state keeps its value; the first ones alone set it to their mean."""
    torch.manual_seed(0)
    head, scale = ValueHead(6, width, seed=1).double(), ReturnScale()
    states = torch.randn(5, 6, dtype=torch.float64)
    head.observe(scale, torch.tensor([0.2, 0.6], dtype=torch.float64))
    torch.testing.assert_close(scale.from_units(head(states)), torch.full((5,), 0.4, dtype=torch.float64))
    with torch.no_grad():
        for weight in head.parameters():
            weight.add_(torch.randn_like(weight))
    before = scale.from_units(head(states)).detach()
    assert before.std() > 0.01
    for returns in ([5.0, -3.0], [0.0, 0.0], [100.0, 100.0]):
        mean = scale.mean
        head.observe(scale, torch.tensor(returns, dtype=torch.float64))
        assert scale.mean != mean
        torch.testing.assert_close(scale.from_units(head(states)).detach(), before, rtol=1e-12, atol=1e-12)


def test_head_asks_no_generator_but_its_own() -> None:
    """The same seed gives the same head, and no draw is taken from torch's global generator."""
    before = torch.get_rng_state()
    first, same, other = (dict(ValueHead(6, 8, seed=seed).named_parameters()) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first["first.weight"], same["first.weight"])
    assert not torch.equal(first["first.weight"], other["first.weight"])


def test_value_clip_by_hand() -> None:
    """Beyond the clip towards its return: no gradient. Astray, or within: its whole error. Six tokens in the step."""
    values = torch.tensor([0.5, 0.5, 0.1], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    found = value_loss(values, torch.zeros(3, dtype=torch.float64), targets, 0.2, 6)
    found.loss.backward()
    assert float(found.loss.detach()) == pytest.approx(0.5 * (0.64 + 2.25 + 0.81) / 6)
    assert found.num_clipped == 1
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx([0.0, 0.25, -0.15])
