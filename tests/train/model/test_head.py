"""Fused, kept or computed again: the numbers and gradients are those of plain log-softmax."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from train.model import head
from train.model.head import predict

ROWS, TARGETS = torch.tensor([0, 0, 1, 4, 4, 3]), torch.tensor([5, 2, 2, 0, 0, 10])
TEMPERATURES = torch.tensor([1.0, 0.5, 1.0, 2.0, 0.7], dtype=torch.float64)


def plain(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    logprobs = (hidden @ weight.T / TEMPERATURES[:, None]).log_softmax(-1)
    return logprobs[ROWS, TARGETS], -(logprobs.exp() * logprobs).sum(-1)


@pytest.fixture(params=["kept", "again"])
def inputs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Hidden states and weights; in two parts; log-probabilities kept, or computed again."""
    monkeypatch.setattr(head, "ROWS", 3)
    monkeypatch.setattr(head, "MAX_KEPT_BYTES", 1 << 20 if request.param == "kept" else 0)
    draw = torch.Generator().manual_seed(0)
    shapes = ((5, 7), (11, 7))
    return [torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("of_logprobs", "of_entropies"), [(True, False), (False, True), (True, True)])
def test_same_as_plain(inputs: list[Tensor], of_logprobs: bool, of_entropies: bool) -> None:
    """Values, and the gradients of either or both; a place that several tokens follow gathers from each."""
    found, wanted = predict(*inputs, ROWS, TARGETS, TEMPERATURES), plain(*inputs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    weights = torch.arange(1.0, 7, dtype=torch.float64)
    chosen = [place for place, is_wanted in enumerate((of_logprobs, of_entropies)) if is_wanted]
    gradients = [
        torch.autograd.grad([(pair[place] * weights[: len(pair[place])]).sum() for place in chosen], inputs)
        for pair in (found, wanted)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def test_frozen_outputs_have_no_gradient(inputs: list[Tensor]) -> None:
    """A matrix that does not move costs no gradient, and no tokens have none."""
    hidden, weight = inputs[0], inputs[1].detach()
    predict(hidden, weight, ROWS, TARGETS, TEMPERATURES)[0].sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None
    none = torch.tensor([], dtype=torch.long)
    logprobs, entropies = predict(hidden[:0], weight, none, none, TEMPERATURES[:0])
    assert logprobs.shape == entropies.shape == (0,)
