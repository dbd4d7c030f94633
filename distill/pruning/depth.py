"""Which layers go: one by one, measured again after each, and a search that looks at more than one way.

Greedy removal takes the layer whose going costs least now. A beam keeps the `width` best sets of each size and grows
all of them; greedy removal is the beam of width one, and a beam that is wide enough is the exhaustive search. Sets
chosen by position alone are measured beside them, so that the report says what measuring was good for.

Ties go to the set with the higher layers removed, so that the same scores give the same layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from distill.pruning.fidelity import Fidelity, Layers, Scores


class Criterion(StrEnum):
    """What a removal shall cost little of."""

    DIVERGENCE = "divergence"
    ACCEPTANCE = "acceptance"

    def cost(self, scores: Scores) -> float:
        """Low is good."""
        return scores.divergence if self is Criterion.DIVERGENCE else -scores.acceptance


@dataclass(frozen=True, slots=True)
class Stage:
    """The best set of its size that was found."""

    kept: Layers
    scores: Scores
    alternatives: dict[str, Scores]
    """Every set of this size that was measured, by what it leaves out (`4,17`)."""

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


def num_measured(num_layers: int, num_removed: int, width: int) -> int:
    """The most sets that `remove` measures, for a progress bar."""
    return sum((1 if gone == 0 else width) * (num_layers - gone) for gone in range(num_removed))


def remove(
    fidelity: Fidelity,
    num_removed: int,
    *,
    width: int = 1,
    criterion: Criterion = Criterion.DIVERGENCE,
    on_measured: Callable[[], None] = lambda: None,
) -> list[Stage]:
    """Leave layers out until `num_removed` are gone; a stage for each.

    Args:
        fidelity: of the whole model.
        num_removed: fewer than it has layers.
        width: sets that go on; 1 is greedy removal.
        criterion: by which they are chosen.
        on_measured: called after each set.

    Raises:
        ValueError: nothing would be left, or nothing is asked.
    """
    num_layers = fidelity.model.shape.num_layers
    if not 0 < num_removed < num_layers or width < 1:
        raise ValueError(
            f"cannot remove {num_removed} of {num_layers} layers in a beam of {width}; leave one at least"
        )
    sets: list[Layers] = [tuple(range(num_layers))]
    stages: list[Stage] = []
    for _ in range(num_removed):
        fidelity.hold(sets)
        found: dict[Layers, Scores] = {}
        for kept in sets:
            for place in range(len(kept)):
                left = kept[:place] + kept[place + 1 :]
                if left not in found:
                    found[left] = fidelity.score(left)
                    on_measured()
        ranked = sorted(found, key=lambda left: (criterion.cost(found[left]), left))
        sets = ranked[:width]
        alternatives = {_name(left, num_layers): found[left] for left in ranked}
        stages.append(Stage(sets[0], found[sets[0]], alternatives))
    return stages


def by_position(num_layers: int, num_removed: int) -> dict[str, Layers]:
    """Sets of layers that nobody measured for: the first ones, and the two ends with what lies evenly between."""
    num_kept = num_layers - num_removed
    if num_kept == 1:
        return {"first": (0,)}
    evenly = {round(place * (num_layers - 1) / (num_kept - 1)) for place in range(num_kept)}
    return {"first": tuple(range(num_kept)), "evenly": tuple(sorted(evenly))}


def _name(kept: Layers, num_layers: int) -> str:
    return ",".join(str(layer) for layer in range(num_layers) if layer not in kept)
