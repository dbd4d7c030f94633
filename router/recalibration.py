"""Keeping probabilities true while serving: each arm's forecasts are bent to how its recent answers were graded.

The map takes as much freedom as the grades can bear. Under MIN_OUTCOMES it changes nothing. Then it is Platt's,
`logit p' = a·logit p + b` (Platt 1999), with a prior at a = 1, b = 0. From MANY_OUTCOMES on it is whichever of no
change, Platt's and the isotonic one foretells each half of the grades best from the other: in simulation a shift of
all forecasts is caught best by Platt's map, one of a part of them by the isotonic, and no drift by neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from router.calibration import Floats, fit_isotonic

STATE_SCHEMA: Final = 1
MIN_OUTCOMES: Final = 50
MANY_OUTCOMES: Final = 500
MAX_OUTCOMES: Final = 1000
"""Of each arm, as many of the last are kept."""
PRIOR_OUTCOMES: Final = 50.0
"""How many outcomes the belief that nothing is to be changed is worth to Platt's map."""
MAX_LOGIT: Final = 6.0
"""Forecasts beyond 0.25 and 99.75 % are taken for these: grades say nothing finer."""
MIN_SLOPE: Final = 0.05
"""Keeps the order of forecasts, whatever the grades."""
NUM_STEPS: Final = 30

Map = Callable[[Floats], Floats]


class MapKind(StrEnum):
    """How an arm's probabilities are bent."""

    IDENTITY = "identity"
    PLATT = "platt"
    ISOTONIC = "isotonic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalibration:
    """One arm's map."""

    kind: MapKind = MapKind.IDENTITY
    num_outcomes: int = 0
    """What it was fitted on."""
    map: Map = np.asarray

    def __call__(self, probability: float) -> float:
        """The probability in the light of the grades; it never falls as the forecast rises."""
        if self.kind is MapKind.IDENTITY:
            return probability
        return float(self.map(np.array([probability]))[0])


@dataclass(frozen=True, slots=True)
class PlattMap:
    """A line between logits."""

    slope: float
    """Above 0. Less than 1 where forecasts were too sure of themselves."""
    shift: float
    """Below 0 where they were too hopeful."""

    def __call__(self, probabilities: Floats) -> Floats:
        """The probabilities for these forecasts."""
        return np.asarray(1 / (1 + np.exp(-self.slope * _logits(probabilities) - self.shift)))


class Recalibrator:
    """The recent outcomes of each arm, and the maps that were last fitted to them."""

    def __init__(self) -> None:
        self._outcomes: dict[str, deque[tuple[float, float]]] = {}
        self._maps: dict[str, Recalibration] = {}

    def observe(self, arm: str, *, probability: float, success: float) -> None:
        """What came of a request: the model's own forecast, before any map, and its grade in [0, 1]."""
        self._outcomes.setdefault(arm, deque(maxlen=MAX_OUTCOMES)).append((probability, success))

    def refit(self) -> Mapping[str, Recalibration]:
        """Fit every arm's map anew; milliseconds, so not for every outcome."""
        self.use(fitted(self.outcomes()))
        return self._maps

    def outcomes(self) -> dict[str, Floats]:
        """A copy of what is known, by arm: (forecast, grade) in rows, oldest first. For `fitted`, in a thread."""
        return {arm: np.array(rows) for arm, rows in self._outcomes.items()}

    def use(self, maps: Mapping[str, Recalibration]) -> None:
        """Apply these maps from now on."""
        self._maps = dict(maps)

    @property
    def maps(self) -> Mapping[str, Recalibration]:
        """Those in use, by arm."""
        return self._maps

    def apply(self, arm: str, probability: float) -> float:
        """The forecast of `arm` as the map last fitted has it; as it is where there is none."""
        return self._maps[arm](probability) if arm in self._maps else probability

    def plain(self) -> dict[str, Any]:
        """What outlives a restart, as numbers, strings and lists."""
        return {
            "schema": STATE_SCHEMA,
            "outcomes": {arm: [list(row) for row in rows] for arm, rows in self._outcomes.items()},
        }

    @classmethod
    def restored(cls, plain: Mapping[str, Any]) -> Recalibrator:
        """From `plain`, with its maps fitted.

        Raises:
            ValueError: it was saved by another version.
        """
        if plain.get("schema") != STATE_SCHEMA:
            raise ValueError(f"the saved state has schema {plain.get('schema')!r}, not {STATE_SCHEMA}")
        made = cls()
        for arm, rows in plain["outcomes"].items():
            for probability, success in rows:
                made.observe(arm, probability=probability, success=success)
        made.refit()
        return made


def fitted(outcomes: Mapping[str, Floats]) -> dict[str, Recalibration]:
    """The map of each arm for its outcomes, in rows of forecast and grade."""
    return {arm: recalibrated(*rows.T) for arm, rows in outcomes.items()}


def recalibrated(probabilities: Floats, outcomes: Floats) -> Recalibration:
    """The map for these forecasts and their grades, oldest first."""
    num = len(outcomes)
    if num < MIN_OUTCOMES:
        return Recalibration(num_outcomes=num)
    kind = MapKind.PLATT
    if num >= MANY_OUTCOMES:
        kind = min(_FITS, key=lambda kind: _held_out_error(_FITS[kind], probabilities, outcomes))
    return Recalibration(kind=kind, num_outcomes=num, map=_FITS[kind](probabilities, outcomes))


def fit_platt(probabilities: Floats, outcomes: Floats) -> PlattMap:
    """Platt's map of greatest posterior likelihood; by Newton's method, whose steps are kept below 1."""
    design = np.stack((_logits(probabilities), np.ones(len(outcomes))))  # (2, outcomes)
    start = np.array((1.0, 0.0))
    precision = PRIOR_OUTCOMES / 4 * np.eye(2)  # an outcome of probability 1/2 tells 1/4 about a logit
    weights = start
    for _ in range(NUM_STEPS):
        fitted = 1 / (1 + np.exp(-weights @ design))
        gradient = design @ (fitted - outcomes) + precision @ (weights - start)
        curvature = (design * (fitted * (1 - fitted))) @ design.T + precision
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step / max(1.0, float(np.abs(step).max()))
    return PlattMap(slope=max(MIN_SLOPE, float(weights[0])), shift=float(weights[1]))


def _held_out_error(fit: Callable[[Floats, Floats], Map], probabilities: Floats, outcomes: Floats) -> float:
    """The summed squared error on each half of a map fitted to the other; every second outcome is of one half."""
    is_even = np.arange(len(outcomes)) % 2 == 0
    error = 0.0
    for half in (is_even, ~is_even):
        fitted = fit(probabilities[half], outcomes[half])
        error += float(np.square(fitted(probabilities[~half]) - outcomes[~half]).sum())
    return error


def _unchanged(probabilities: Floats, outcomes: Floats) -> Map:
    return np.asarray


_FITS: Final[Mapping[MapKind, Callable[[Floats, Floats], Map]]] = {
    MapKind.IDENTITY: _unchanged,
    MapKind.PLATT: fit_platt,
    MapKind.ISOTONIC: fit_isotonic,
}


def _logits(probabilities: Floats) -> Floats:
    bounded = np.clip(probabilities, 1e-9, 1 - 1e-9)
    return np.clip(np.log(bounded / (1 - bounded)), -MAX_LOGIT, MAX_LOGIT)
