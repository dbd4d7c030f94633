"""Conflict: sketches tell the cosine, a built conflict is found and resolved as PCGrad does, compatible domains are
left alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from train.conflict import LEAST_STEPS, ConflictProbe


def pulled(cosine: float, *, num: int = 4000, seed: int = 0) -> dict[str, dict[str, Tensor]]:
    """Two domains whose gradients, of unequal lengths, meet at this cosine."""
    generator = torch.Generator().manual_seed(seed)
    one = torch.randn(num, generator=generator)
    other = torch.randn(num, generator=generator)
    one = one / one.norm()
    other = other - (other @ one) * one
    other = cosine * one + (1 - cosine**2) ** 0.5 * other / other.norm()
    return {"a": {"layer.weight": one}, "b": {"layer.weight": 3 * other}}


@pytest.mark.parametrize("cosine", [-0.8, -0.3, 0.0, 0.5, 1.0])
def test_sketches_tell_the_cosine(cosine: float) -> None:
    """Smoothed over steps it is that of the gradients, within the sketch's noise."""
    probe = ConflictProbe()
    for step in range(20):
        probe.combine(step, pulled(cosine, seed=step))
    assert probe.matrix()["a"]["b"] == pytest.approx(cosine, abs=0.06)
    assert probe.transfer()["a"] == pytest.approx(1 + cosine, abs=0.06)


def test_built_conflict_is_resolved_as_pcgrad_does() -> None:
    """What is applied is what torchjd's PCGrad makes of the two gradients, and neither domain is worse off."""
    aggregation = pytest.importorskip("torchjd.aggregation")
    probe = ConflictProbe(is_projected=True)
    for step in range(LEAST_STEPS):
        gradients = pulled(-0.6, seed=step)
        combined = probe.combine(step, gradients)
    assert combined.num_projected == 2
    rows = torch.stack([gradients[domain]["layer.weight"] for domain in ("a", "b")])
    assert torch.allclose(combined.gradient["layer.weight"], aggregation.PCGrad()(rows), atol=1e-5)
    assert all(float(row @ combined.gradient["layer.weight"]) >= -1e-6 for row in rows)


@pytest.mark.parametrize("cosine", [-0.05, 0.0, 0.7])
def test_compatible_domains_are_summed(cosine: float) -> None:
    """Above the threshold nothing is projected, whatever a single step's cosine."""
    probe = ConflictProbe(is_projected=True, threshold=-0.2)
    for step in range(10):
        gradients = pulled(cosine, seed=step)
        combined = probe.combine(step, gradients)
    assert combined.num_projected == 0
    total = gradients["a"]["layer.weight"] + gradients["b"]["layer.weight"]
    assert torch.equal(combined.gradient["layer.weight"], total)


def test_only_the_module_in_conflict_gives_way() -> None:
    """A module where the domains agree is summed beside one where they do not."""
    probe = ConflictProbe(is_projected=True)
    for step in range(LEAST_STEPS):
        apart, along = pulled(-0.7, seed=step), pulled(0.7, seed=step)
        gradients = {
            domain: {"up.weight": apart[domain]["layer.weight"], "down.weight": along[domain]["layer.weight"]}
            for domain in ("a", "b")
        }
        combined = probe.combine(step, gradients)
    assert combined.num_projected == 2
    summed = gradients["a"]["down.weight"] + gradients["b"]["down.weight"]
    assert torch.equal(combined.gradient["down.weight"], summed)


def test_one_step_is_no_conflict() -> None:
    """A cosine is acted on when it was seen a few times."""
    probe = ConflictProbe(is_projected=True)
    assert probe.combine(0, pulled(-0.9)).num_projected == 0


def test_measuring_alone_changes_nothing() -> None:
    """Without projection the gradient is the sum, and the matrix is kept all the same."""
    probe = ConflictProbe()
    for step in range(5):
        gradients = pulled(-0.9, seed=step)
        combined = probe.combine(step, gradients)
    assert torch.equal(
        combined.gradient["layer.weight"], gradients["a"]["layer.weight"] + gradients["b"]["layer.weight"]
    )
    assert probe.matrix()["b"]["a"] < -0.8


def test_matrix_goes_on_from_a_checkpoint() -> None:
    """Restored, it resolves as it would have."""
    one, other = ConflictProbe(is_projected=True), ConflictProbe(is_projected=True)
    for step in range(LEAST_STEPS):
        one.combine(step, pulled(-0.6, seed=step))
    other.restore(one.plain())
    found = [probe.combine(9, pulled(-0.6, seed=9)).gradient["layer.weight"] for probe in (one, other)]
    assert torch.equal(*found)
