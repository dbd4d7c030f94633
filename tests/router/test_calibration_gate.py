"""The gate of an arm's probabilities: a large error closes it, a small one opens it; chance and little do neither."""

from __future__ import annotations

import numpy as np
import pytest

from router.calibration_gate import CLEAR_ERROR, MAX_ERROR, MIN_OUTCOMES, CalibrationGate


def outcomes(num: int, *, p: float, truth: float, seed: int = 0) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(p, float(rng.random() < truth)) for _ in range(num)]


def test_the_held_out_error_decides_at_first() -> None:
    """At the bound it fails, below it passes; few outcomes do not change that."""
    gate = CalibrationGate({"fast": MAX_ERROR, "full": MAX_ERROR - 0.01})
    gate.judge("fast", outcomes(MIN_OUTCOMES - 1, p=0.8, truth=0.8))
    gate.judge("full", outcomes(MIN_OUTCOMES - 1, p=0.8, truth=0.1))
    assert (gate.failed, gate.proven) == ({"fast"}, set())


@pytest.mark.parametrize("truth", [0.6, 1.0])
def test_outcomes_close_it_either_way(truth: float) -> None:
    """Forecasts of 0.8 that come true with 0.6, or always: too far off."""
    gate = CalibrationGate({})
    gate.judge("fast", outcomes(500, p=0.8, truth=truth))
    assert (gate.failed, gate.proven) == ({"fast"}, set())


def test_it_does_not_flutter() -> None:
    """An error between the bounds closes no open gate and opens no closed one; a small one opens it, and is a proof."""
    between = outcomes(2000, p=0.8, truth=0.8 - (MAX_ERROR + CLEAR_ERROR) / 2)
    gate = CalibrationGate({"closed": 1.0, "open": 0.0})
    for arm in ("closed", "open"):
        gate.judge(arm, between)
    assert (gate.failed, gate.proven) == ({"closed"}, set())
    gate.judge("closed", outcomes(500, p=0.8, truth=0.8))
    assert (gate.failed, gate.proven) == (set(), {"closed"})


def test_chance_closes_nothing() -> None:
    """Of a hundred arms whose forecasts hold, over many heights, none fails with as few outcomes as are looked at."""
    gate, rng = CalibrationGate({}), np.random.default_rng(0)
    for arm in range(100):
        ps = rng.random(MIN_OUTCOMES)
        gate.judge(str(arm), [(float(p), float(rng.random() < p)) for p in ps])
    assert gate.failed == set()
