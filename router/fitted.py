"""The fitted difficulty model: calibrated probabilities of success from outcomes of the tiers that are served.

A linear score of structure and n-grams for each arm, then that arm's isotonic map (`router.calibration`). Inference is
array arithmetic alone; `router.fit` makes it and `router.artifact` keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.arms import Arm
from router.calibration import Isotonic
from router.difficulty import Forecast, expected_output_tokens
from router.encoding import Columns, Encoded, encode
from router.features import structure
from router.ngrams import NUM_BUCKETS
from router.request import RequestView


class UnfittedArmError(ValueError):
    """The model was fitted on outcomes of other arms; the remedy is to collect and fit with this one."""


@dataclass(frozen=True, slots=True)
class TokenModel:
    """Expected output tokens: the exponential of a line in the structure, times what the logarithm lost."""

    weights: NDArray[np.float32]
    """Of structure's standardised features."""
    intercept: float
    smearing: float
    """Mean of exp(residual) (Duan 1983, doi:10.1080/01621459.1983.10478017)."""
    most: float
    """The most that was seen: nothing is extrapolated beyond it."""

    def __call__(self, deviations: NDArray[np.float32]) -> float:
        """Tokens for a request with this standardised structure."""
        expected = self.smearing * float(np.exp(self.intercept + self.weights @ deviations))
        return min(expected, self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A `router.difficulty.DifficultyModel`."""

    version: str
    arms: tuple[str, ...]
    """Weakest first."""
    columns: Columns
    weights: NDArray[np.float32]
    """(columns, arms)."""
    intercepts: NDArray[np.float32]
    """(arms,)."""
    calibrations: tuple[Isotonic, ...]
    """Of each arm."""
    tokens: tuple[TokenModel | None, ...]
    """Of each arm; None where the outcomes counted no tokens."""
    least_known_share: float
    """A request of whose words a smaller share was known to the outcomes is out of distribution: less than one in a
    hundred of the outcomes' own prompts, each read by a model that had not seen it, had so few."""

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

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Forecast]:
        """The forecast for each of `arms`."""
        encoded = encode(view)
        probabilities = self.probabilities(encoded)
        is_supported = self.columns.known_share(encoded) >= self.least_known_share
        forecasts = {}
        for arm in arms:
            place = self.arms.index(arm.name)
            forecasts[arm.name] = Forecast(
                success_probability=float(probabilities[place]),
                num_output_tokens=self._num_tokens(view, encoded, place),
                is_supported=is_supported,
            )
        return forecasts

    def scores(self, encoded: Encoded) -> NDArray[np.float64]:
        """The linear score of each arm, before calibration."""
        row = self.columns.row(encoded)
        return (row.values @ self.weights[row.columns] + self.intercepts).astype(np.float64)

    def probabilities(self, encoded: Encoded) -> NDArray[np.float64]:
        """The calibrated probability of success of each arm."""
        scores = self.scores(encoded)
        return np.array([float(apply(score)) for apply, score in zip(self.calibrations, scores, strict=True)])

    def contributions(self, view: RequestView) -> Mapping[str, float]:
        """What lowers the weakest arm's score, by structural feature, and by all words and all characters together."""
        row = self.columns.row(encode(view))
        parts = -row.values * self.weights[row.columns, 0]
        names = list(structure(view))
        after_structure = len(names)
        is_word = (row.columns >= after_structure) & (row.columns < after_structure + NUM_BUCKETS)
        is_character = row.columns >= after_structure + NUM_BUCKETS
        shown = dict(zip(names, parts[:after_structure].tolist(), strict=True))
        return shown | {"words": float(parts[is_word].sum()), "characters": float(parts[is_character].sum())}

    def _num_tokens(self, view: RequestView, encoded: Encoded, place: int) -> float:
        model = self.tokens[place]
        if model is None:
            return expected_output_tokens(view, length=float(encoded.structure[0]))
        return model(self.columns.deviations(encoded.structure))
