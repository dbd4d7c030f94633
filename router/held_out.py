"""What a fit says of prompts that it has not seen, and the figures of it that go into an artifact's header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.artifact_header import ArmFigures
from router.calibration import brier_score, calibration_noise, expected_calibration_error
from router.fit import held_out_models
from router.fit_config import FitConfig
from router.outcome_table import OutcomeTable
from router.prepared import Prepared
from router.ranking import auc, routing_curves

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Every prompt as a model saw it that was fitted and calibrated without it."""

    table: OutcomeTable
    probabilities: Floats
    """(prompts, arms)."""
    unknown_shares: Floats
    """Of each prompt's words, and runs of words."""
    supported_share: float
    """Of the prompts: those that were not out of distribution."""

    def figures(self, generator: np.random.Generator) -> dict[str, ArmFigures]:
        """How far the probabilities of each arm hold."""
        return {name: self._arm_figures(arm, generator) for arm, name in enumerate(self.table.arms)}

    def apgr(self) -> float | None:
        """Of the prompts that both the weakest and the strongest arm were asked; None where neither is better."""
        weak, strong = self.table.successes[:, 0], self.table.successes[:, -1]
        both = ~np.isnan(weak) & ~np.isnan(strong)
        if weak[both].sum() == strong[both].sum():
            return None
        scores = (self.probabilities[:, -1] - self.probabilities[:, 0])[both]
        return float(routing_curves(scores, weak[both], strong[both], np.ones((1, len(scores)))).apgr()[0])

    def _arm_figures(self, arm: int, generator: np.random.Generator) -> ArmFigures:
        tried = ~np.isnan(self.table.successes[:, arm])
        p, successes = self.probabilities[tried, arm], self.table.successes[tried, arm]
        return ArmFigures(
            num_outcomes=len(successes),
            success_share=float(successes.mean()),
            auc=float(auc(p, successes, np.ones((1, len(p))))[0]),
            brier_score=brier_score(p, successes),
            calibration_error=expected_calibration_error(p, successes),
            calibration_noise=calibration_noise(p, generator),
        )


def hold_out(
    prepared: Prepared,
    config: FitConfig,
    *,
    fold_of: NDArray[np.int64] | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Fit without each fold and look at it; `num_folds` times as long as a fit.

    Raises:
        FitRefusedError: as `router.fit.fit`, of what is left without a fold.
    """
    probabilities = np.zeros(prepared.table.successes.shape)
    unknown_shares, is_supported = np.zeros(len(prepared.table)), np.zeros(len(prepared.table), dtype=bool)
    for places, model in held_out_models(prepared, config, fold_of=fold_of, on_step=on_step):
        for place in places:
            encoded = prepared.encoded[place]
            probabilities[place] = model.probabilities(encoded)
            unknown_shares[place] = model.scorer.columns.rarity(encoded)[0]
            is_supported[place] = model.is_supported(encoded, unknown_shares[place])
    return HeldOut(prepared.table, probabilities, unknown_shares, float(is_supported.mean()))
