"""The fitted difficulty model: calibrated probabilities of success from outcomes of the tiers that are served.

For each arm, a linear score of features and n-grams (`router.logistic`), to which boosted trees add what a line cannot
say (`router.boosting`), and an isotonic map to a probability (`router.calibration`). Inference is array arithmetic
alone; `router.fit` makes a model and `router.artifact` keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.arms import Arm
from router.boosting import Trees
from router.calibration import Isotonic, Line
from router.difficulty import WATCHED, Assessment, Forecast, expected_output_tokens
from router.encoding import Columns, Embedder, Encoded, encode, feature_names
from router.ngrams import NUM_BUCKETS
from router.request import RequestView

Floats = NDArray[np.float32]

UNKNOWN_WORDS: Final = "unknown_words"
"""The share of a request's words, and runs of words, that no outcome had."""


class UnfittedArmError(ValueError):
    """The model was fitted on outcomes of other arms; the remedy is to collect and fit with this one."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """The linear score of every arm."""

    columns: Columns
    weights: Floats
    """(columns, arms)."""
    intercepts: Floats
    """(arms,)."""

    def scores(self, encoded: Encoded) -> Floats:
        """Log odds of success, still shrunk by the penalty; (arms,)."""
        row = self.columns.row(encoded)
        # Not a BLAS product: that would ask other threads to help with so long a row, and wait for them.
        scores: Floats = np.einsum("i,ij->j", row.values, self.weights[row.columns]) + self.intercepts
        return scores

    def dense(self, encoded: Encoded, scores: Floats) -> Floats:
        """What the trees see of a request: its features, its rarity, and the linear score of every arm."""
        return np.concatenate((encoded.features, self.columns.rarity(encoded), scores), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class TokenModel:
    """Expected output tokens: the exponential of a line in the features, times what the logarithm lost."""

    weights: Floats
    """Of the features in standard deviations."""
    intercept: float
    smearing: float
    """Mean of exp(residual) (Duan 1983, doi:10.1080/01621459.1983.10478017)."""
    most: float
    """The most that was seen: nothing is extrapolated beyond it."""

    def __call__(self, deviations: Floats) -> float:
        """Tokens for a request with these features."""
        expected = self.smearing * float(np.exp(self.intercept + self.weights @ deviations))
        return min(expected, self.most)


@dataclass(frozen=True, slots=True)
class ArmModel:
    """What one arm adds to the scores."""

    line: Line
    """Undoes the shrinking of the linear score."""
    trees: Trees
    calibration: Isotonic
    tokens: TokenModel | None
    """None where the outcomes counted no tokens."""

    def probability(self, score: float, dense: Floats) -> float:
        """The calibrated probability of success."""
        log_odds = self.line.slope * score + self.line.intercept + self.trees(dense)
        return float(np.interp(log_odds, self.calibration.scores, self.calibration.probabilities))


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A `router.difficulty.DifficultyModel`."""

    version: str
    arms: tuple[str, ...]
    """Weakest first."""
    scorer: Scorer
    by_arm: tuple[ArmModel, ...]
    most_unknown: float
    """A request with a greater share of unknown words, and runs of words, is out of distribution: one in a hundred of
    the outcomes' own prompts, each read by a model that had not seen it, has so many."""
    embed: Embedder | None = None
    """None where it was fitted without an embedding."""

    def check(self, arms: Iterable[Arm]) -> None:
        """Whether the model can forecast these arms.

        Raises:
            UnfittedArmError: for an arm it cannot.
        """
        unknown = sorted({arm.name for arm in arms} - set(self.arms))
        if unknown:
            raise UnfittedArmError(
                f"the router artifact {self.version} knows {', '.join(self.arms)} and not {', '.join(unknown)}; "
                "collect outcomes of it and fit again"
            )

    @property
    def watched(self) -> tuple[str, ...]:
        """Some features, and the share of words that no outcome had."""
        return (*WATCHED, UNKNOWN_WORDS)

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> Mapping[str, Forecast]:
        """The forecast for each of `arms`, all of which the model was fitted on (`check`)."""
        return self.assess(view, arms).forecasts

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        """The same, with the numbers that are watched."""
        encoded = encode(view, self.embed)
        scores = self.scorer.scores(encoded)
        dense = self.scorer.dense(encoded, scores)
        unknown = float(dense[len(encoded.features)])
        is_supported = self.is_supported(encoded, unknown)
        forecasts = {}
        for arm in arms:
            place = self.arms.index(arm.name)
            forecasts[arm.name] = Forecast(
                success_probability=self.by_arm[place].probability(float(scores[place]), dense),
                num_output_tokens=self._num_tokens(view, encoded, place),
                is_supported=is_supported,
            )
        inputs = dict(zip(WATCHED, encoded.features[list(_watched_places())].tolist(), strict=True))
        return Assessment(forecasts=forecasts, inputs=inputs | {UNKNOWN_WORDS: unknown})

    def is_supported(self, encoded: Encoded, unknown_share: float) -> bool:
        """Whether the model has seen the like. So short a text as "hi" says little of itself, known or not: the fewer
        the words, the more may be unknown, by one standard error of such a share."""
        num_runs = max(1, len(encoded.words.indices))
        spread = sqrt(self.most_unknown * (1 - self.most_unknown) / num_runs)
        return unknown_share <= self.most_unknown + spread

    def probabilities(self, encoded: Encoded) -> NDArray[np.float64]:
        """The probability of success of each arm."""
        scores = self.scorer.scores(encoded)
        dense = self.scorer.dense(encoded, scores)
        pairs = zip(self.by_arm, scores, strict=True)
        return np.array([model.probability(float(score), dense) for model, score in pairs])

    def contributions(self, view: RequestView) -> dict[str, float]:
        """What lowers the weakest arm's log odds: each feature, all words, all characters, the embedding,
        and the trees together."""
        encoded = encode(view, self.embed)
        row = self.scorer.columns.row(encoded)
        weakest = self.by_arm[0]
        parts = -weakest.line.slope * row.values * self.scorer.weights[row.columns, 0]
        names = feature_names()
        is_embedding = row.columns >= self.scorer.columns.embedding_start
        is_character = (row.columns >= len(names) + NUM_BUCKETS) & ~is_embedding
        is_word = (row.columns >= len(names)) & (row.columns < len(names) + NUM_BUCKETS)
        dense = self.scorer.dense(encoded, self.scorer.scores(encoded))
        shown = dict(zip(names, parts[: len(names)].tolist(), strict=True))
        return shown | {
            "words": float(parts[is_word].sum()),
            "characters": float(parts[is_character].sum()),
            **({"embedding": float(parts[is_embedding].sum())} if self.embed else {}),
            "trees": -weakest.trees(dense),
        }

    def _num_tokens(self, view: RequestView, encoded: Encoded, place: int) -> float:
        model = self.by_arm[place].tokens
        if model is None:
            return expected_output_tokens(view, length=float(encoded.features[0]))
        return model(self.scorer.columns.deviations(encoded.features))


@cache
def _watched_places() -> tuple[int, ...]:
    names = feature_names()
    return tuple(names.index(name) for name in WATCHED)
