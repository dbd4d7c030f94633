"""The numbers of docs/router-maths.md are those of the code, and the modules that it names are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from router.boosting import DEPTH, BoostConfig
from router.budget_config import CONSERVATIVE_ALLOWANCE, SPREAD, BudgetConfig
from router.calibration import PRIOR
from router.calibration_gate import CLEAR_ERROR, MAX_ERROR
from router.debt import KEPT_S
from router.difficulty import BASE_SCORE
from router.doubt import MAX_SHARE, SAVED_REQUESTS
from router.drift import DriftConfig
from router.duplicates import LEAST_SIMILARITY, NUM_BANDS, ROWS_PER_BAND
from router.encoding import FEATURE_WEIGHT, MAX_DEVIATIONS
from router.features import MAX_READ_CHARS
from router.fit_config import FitConfig
from router.histogram import MIN_SHARE
from router.ngrams import NUM_BUCKETS, NUM_CHARACTERS
from router.offer import Metric
from router.outcome_test import STAKES
from router.recalibration import MANY_OUTCOMES, MAX_OUTCOMES, MIN_OUTCOMES, PRIOR_OUTCOMES
from router.scan import MAX_BYTES
from router.session import HALF_LIFE_S, KEPT_PER_TURN, MIN_WEIGHT
from router.support import MIN_SUPPORTING
from router.traffic import FAST_S, MAX_RATIO, PRIOR_REQUESTS, SLOW_S

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = " ".join((ROOT / "docs/router-maths.md").read_text().split())
BUDGET, DRIFT, BOOSTING = BudgetConfig(metric=Metric.FULL_SHARE, target=0.3), DriftConfig(), BoostConfig()


@pytest.mark.parametrize(
    "words",
    [
        f"u uniform, s = {SPREAD}",
        f"`w = {KEPT_PER_TURN}·2^(−t/{HALF_LIFE_S:g} s)`, and nothing below {MIN_WEIGHT}",
        f"`h = 1 − exp(−{BASE_SCORE} −",
        f"the last {BUDGET.max_offers} offers, thinned so that they span {BUDGET.min_span_s:g} s",
        f"clip(d/h, ±{BUDGET.max_correction_share}·B)",
        f"max({BUDGET.repay_requests:g} requests, those of {BUDGET.repay_s:g} s)",
        f"±{BUDGET.max_correction_share * KEPT_S:g} s of the target instead "
        f"({BUDGET.max_correction_share} · {KEPT_S:g} s)",
        f"(Σ realised + {PRIOR_REQUESTS:g}·m)",
        f"decay over {SLOW_S:g} s, or `r₁₀ − 2·√(r₁₀/{2 * FAST_S:g})` of the last {FAST_S:g} s",
        f"|Δ ln λ| ≤ {BUDGET.max_log_step_per_s} a second",
        f"`min({MAX_SHARE * SAVED_REQUESTS:g}·B, left + B/{1 / MAX_SHARE:g})`",
        f"λ/{CONSERVATIVE_ALLOWANCE}",
        f"first and last {MAX_READ_CHARS // 2:,} characters",
        f"last {MAX_BYTES // 2:,} bytes",
        f"beside {FitConfig().num_copies} copies",
        f"at most {FitConfig().max_copies:,} altogether",
        f"held to ±{MAX_DEVIATIONS:g}, times {FEATURE_WEIGHT}",
        f"runs of {NUM_CHARACTERS} bytes",
        f"similarity ≥ {LEAST_SIMILARITY}",
        f"{NUM_BANDS} bands of {ROWS_PER_BAND}",
        f"of depth {DEPTH}",
        f"`{BOOSTING.learning_rate}·G/(H + {BOOSTING.penalty:g})`",
        f"`(Σ y + {PRIOR:g}·σ(a·s + b))/(n + {PRIOR:g})`",
        f"last {MAX_OUTCOMES:,} grades: nothing under {MIN_OUTCOMES};",
        f"a prior of {PRIOR_OUTCOMES:g} grades",
        f"from {MANY_OUTCOMES} on",
        f"a bin at least {MIN_SHARE}",
        f"above {DRIFT.psi_alarm}, until below {DRIFT.psi_clear}. A value as old as {DRIFT.num_recent:,.0f} others",
        f"(p − {DRIFT.tolerance} − y)",
        f"stakes b of {', '.join(map(str, STAKES[:-1]))} and {STAKES[-1]}",
        f"M ≥ {DRIFT.mean_outcomes_between_false_alarms:,.0f}",
        f"closed from {MAX_ERROR:.2f} on, open again below {CLEAR_ERROR}",
        f"under {MIN_SUPPORTING:g} there is no estimate",
    ],
)
def test_numbers_are_those_of_the_code(words: str) -> None:
    """A constant that changes has to change on the page."""
    assert words in PAGE


def test_the_bounds_that_are_written_otherwise() -> None:
    """A fifth to five times, and two to the eighteenth."""
    assert (MAX_RATIO, NUM_BUCKETS) == (5, 2**18)
    assert "within [⅕, 5]" in PAGE
    assert "2¹⁸ buckets" in PAGE


def test_every_formula_names_modules_that_exist() -> None:
    """Behind the name of each formula stand the files to look at."""
    named = re.findall(r"\*\*[^*]+\*\* \((`[^)]+`)\)", PAGE)
    assert len(named) >= 20
    for modules in named:
        for module in re.findall(r"`([^`]+)`", modules):
            path = module if "/" in module else f"router/{module}"
            assert (ROOT / f"{path}.py").is_file(), module
