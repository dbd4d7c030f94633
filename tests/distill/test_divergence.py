"""How far student and teacher are apart, in parts and with gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from distill.divergence import (
    ROWS,
    Measure,
    TopScores,
    WholeScores,
    diverge,
    forward_kl,
    jsd,
    reverse_kl,
    total_variation,
)

P, Q = (0.5, 0.3, 0.2), (0.2, 0.2, 0.6)
MEASURES = {"forward": forward_kl, "reverse": reverse_kl, "jsd": jsd(0.3), "variation": total_variation}


def _kl(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


M = tuple(0.3 * p + 0.7 * q for p, q in zip(P, Q, strict=True))
BY_HAND = {
    "forward": _kl(P, Q),
    "reverse": _kl(Q, P),
    "jsd": 0.3 * _kl(P, M) + 0.7 * _kl(Q, M),
    "variation": 0.4,
}


def _pair(places: int = 2 * ROWS + 3, size: int = 17) -> tuple[Tensor, Tensor, WholeScores]:
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    return (
        normal(places, 5).requires_grad_(),
        normal(size, 5).requires_grad_(),
        WholeScores(normal(places, 7), normal(size, 7)),
    )


def _plain(hidden: Tensor, weight: Tensor, scores: WholeScores, measure: Measure) -> Tensor:
    teacher = (scores.hidden @ scores.weight.T).log_softmax(-1)
    return measure((hidden @ weight.T).log_softmax(-1), teacher)[0]


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_its_formula(name: str) -> None:
    """Two distributions of three tokens give what was computed by hand."""
    student, teacher = torch.tensor([Q, P], dtype=torch.float64).log().split(1)
    assert MEASURES[name](student, teacher)[0].item() == pytest.approx(BY_HAND[name], rel=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_parts_and_the_slope_are_those_of_the_whole(name: str) -> None:
    """Values and gradients are what autograd makes of all logits at once."""
    hidden, weight, scores = _pair()
    weights = torch.linspace(-1, 2, len(hidden), dtype=torch.float64)
    ours = diverge(hidden, weight, scores, MEASURES[name])
    plain = _plain(hidden, weight, scores, MEASURES[name])
    torch.testing.assert_close(ours, plain)
    for one, other in zip(
        torch.autograd.grad(ours @ weights, (hidden, weight)),
        torch.autograd.grad(plain @ weights, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", MEASURES)
def test_the_tail_is_one_bucket(name: str) -> None:
    """With an engine's four best tokens, value and gradient are those of five merged buckets."""
    hidden, weight, whole = _pair()
    told, ids = (whole.hidden @ whole.weight.T).log_softmax(-1).topk(4)
    ours = diverge(hidden, weight, TopScores(ids, told), MEASURES[name])
    student = (hidden @ weight.T).softmax(-1).gather(-1, ids)
    merged = torch.cat((student, 1 - student.sum(-1, keepdim=True)), -1).log()
    teacher = torch.cat((told, (1 - told.exp().sum(-1, keepdim=True)).log()), -1)
    plain = MEASURES[name](merged, teacher)[0]
    torch.testing.assert_close(ours, plain)
    assert (ours <= _plain(hidden, weight, whole, MEASURES[name]) + 1e-12).all()
    for one, other in zip(
        torch.autograd.grad(ours.sum(), (hidden, weight)),
        torch.autograd.grad(plain.sum(), (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_beta_that_says_nothing_is_refused(beta: float) -> None:
    """JSD is 0 everywhere at both ends, and would train nothing."""
    with pytest.raises(ValueError, match="forward_kl"):
        jsd(beta)


class _Largest(TorchDispatchMode):
    """Notes the most elements that any result of an operation has."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(each, Tensor):
                self.most = max(self.most, each.numel())
        return made


@pytest.mark.parametrize("name", MEASURES)
def test_products_in_bfloat16_are_near(name: str) -> None:
    """Of output matrices in bfloat16, states in single precision: values and both slopes are single too, and near."""
    double_hidden, double_weight, scores = _pair()
    hidden, weight = (each.detach().float().requires_grad_() for each in (double_hidden, double_weight))
    single = WholeScores(scores.hidden.float(), scores.weight.float())
    rough = WholeScores(single.hidden, single.weight.bfloat16())
    ours = diverge(hidden, weight.bfloat16(), rough, MEASURES[name])
    exact = diverge(hidden, weight, single, MEASURES[name])
    assert ours.dtype == torch.float32
    assert 0 < (ours - exact).abs().mean() < 0.02 * exact.mean()
    for one, other in zip(
        torch.autograd.grad(ours.sum(), (hidden, weight)),
        torch.autograd.grad(exact.sum(), (hidden, weight)),
        strict=True,
    ):
        assert one.dtype == torch.float32
        assert (
            torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.98
        )  # the slope of total variation has signs


def test_no_logits_of_all_places_are_made() -> None:
    """Forward and backward, the largest tensor has the logits of one part."""
    hidden, weight, scores = _pair(places=8 * ROWS, size=501)
    with _Largest() as largest:
        diverge(hidden, weight, scores, forward_kl).sum().backward()
    assert largest.most == ROWS * 501


@pytest.mark.parametrize(("beta", "measure"), [(0, forward_kl), (0.3, jsd(0.3)), (1, reverse_kl)])
def test_same_as_trl(beta: float, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's generalised JSD loss, a mean over places, and its gradients are ours."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    trainer = pytest.importorskip("trl.experimental.gkd.gkd_trainer")
    hidden, weight, scores = _pair()
    theirs = trainer.GKDTrainer.generalized_jsd_loss(
        hidden @ weight.T, scores.hidden @ scores.weight.T, beta=beta
    )
    ours = diverge(hidden, weight, scores, measure).mean()
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(ours, (hidden, weight)),
        torch.autograd.grad(theirs, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
