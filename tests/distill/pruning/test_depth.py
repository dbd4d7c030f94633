"""Layers go by what their going costs: greedily, and by a beam that ends as the exhaustive search."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from distill.calibration import CalibrationText
from distill.pruning.depth import Criterion, by_position, num_measured, remove
from distill.pruning.fidelity import Fidelity
from tests.train.model.tiny import tiny_llama, tiny_shape

torch.set_num_threads(1)
NUM_LAYERS = 6


@pytest.fixture(scope="module")
def fidelity() -> Fidelity:
    model = tiny_llama(tiny_shape(num_layers=NUM_LAYERS), dtype=torch.float32)
    with torch.no_grad():
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            model.model.layers[3].get_submodule(name).weight.mul_(1e-4)  # it does next to nothing
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(61, (10,), generator=generator).tolist() for _ in range(4)]
    return Fidelity(model, [CalibrationText("a", tuple(text[:3]), tuple(text[3:])) for text in texts])


def test_the_layer_that_does_nothing_goes_first(fidelity: Fidelity) -> None:
    """Whatever its position; and it costs next to nothing."""
    for criterion in Criterion:
        (stage,) = remove(fidelity, 1, criterion=criterion)
        assert stage.kept == (0, 1, 2, 4, 5)
        assert stage.scores.divergence < 1e-4
        assert len(stage.alternatives) == NUM_LAYERS


def test_greedy_takes_the_cheapest_each_time(fidelity: Fidelity) -> None:
    """Each stage is the best of all sets that leave one more layer out of the last, measured from nothing."""
    kept = tuple(range(NUM_LAYERS))
    for stage in remove(fidelity, 3):
        costs = {left: fidelity.score(left).divergence for left in combinations(kept, len(kept) - 1)}
        kept = min(costs, key=lambda left: costs[left])
        assert stage.kept == kept
        assert stage.scores.divergence == pytest.approx(costs[kept], rel=1e-5)


@pytest.mark.parametrize("criterion", Criterion)
def test_a_wide_beam_is_exhaustive(fidelity: Fidelity, criterion: Criterion) -> None:
    """No set of three layers costs less than the one that a beam of all sets finds, so greedy's does not either."""
    found = remove(fidelity, 3, width=99, criterion=criterion)[-1]
    best = min(combinations(range(NUM_LAYERS), 3), key=lambda left: criterion.cost(fidelity.score(left)))
    assert found.kept == best
    greedy = remove(fidelity, 3, criterion=criterion)[-1]
    assert criterion.cost(found.scores) <= criterion.cost(greedy.scores) + 1e-6


@pytest.mark.parametrize("width", [1, 3])
def test_progress_is_never_short(fidelity: Fidelity, width: int) -> None:
    """The number of sets that was announced is not exceeded, and greedy removal measures just so many."""
    ticks: list[None] = []
    remove(fidelity, 3, width=width, on_measured=lambda: ticks.append(None))
    announced = num_measured(NUM_LAYERS, 3, width)
    assert len(ticks) <= announced
    assert width > 1 or len(ticks) == announced


def test_by_position() -> None:
    """Eight of thirty layers: the first eight, or both ends and six evenly between."""
    assert by_position(30, 22) == {
        "first": (0, 1, 2, 3, 4, 5, 6, 7), "evenly": (0, 4, 8, 12, 17, 21, 25, 29)
    }  # fmt: skip
    assert by_position(3, 2) == {"first": (0,)}


@pytest.mark.parametrize(("num_removed", "width"), [(0, 1), (6, 1), (1, 0)])
def test_what_leaves_nothing_is_refused(fidelity: Fidelity, num_removed: int, width: int) -> None:
    """One layer stays, one goes, and one set at least goes on."""
    with pytest.raises(ValueError, match="leave one at least"):
        remove(fidelity, num_removed, width=width)
