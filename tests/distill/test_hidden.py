"""Layers drawn to layers."""

from __future__ import annotations

import pytest
import torch

from distill.hidden import matching_loss


def _states(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_the_loss_is_its_formula() -> None:
    """(1, 7) and (5, 5), whose mean squares are 25, differ by 4 and 2 fifths: (0.64 + 0.16) / 2."""
    assert matching_loss([_states((1, 7))], [_states((5, 5))]).item() == pytest.approx(0.4, rel=1e-6)


def test_scale_is_not_matched_and_opposites_are_four_apart() -> None:
    """States alike but for their size cost nothing, their negatives 4; a loss is the mean over pairs."""
    states = _states((1, 7), (3, -2))
    loss = matching_loss([3 * states, -states], [states, states])
    assert loss.item() == pytest.approx(2.0, abs=1e-5)


def test_only_the_student_learns() -> None:
    """Student and projection have gradients as differences say, the teacher none."""
    mine, wider = _states((1, 7)).requires_grad_(), _states((1, 0), (0, 1), (1, 1)).requires_grad_()
    other = _states((5, 5, 1)).requires_grad_()
    matching_loss([mine], [other], [wider]).backward()
    assert other.grad is None
    assert torch.autograd.gradcheck(lambda a, b: matching_loss([a], [other], [b]), (mine, wider))


def test_what_does_not_match_is_refused() -> None:
    """Layers without a partner and widths without a projection are errors, not broadcast."""
    with pytest.raises(ValueError, match="1 layers"):
        matching_loss([_states((1, 7))], [])
    with pytest.raises(ValueError, match="projection"):
        matching_loss([_states((1,))], [_states((5, 5))])
