"""Keeps the policy's entropy within a band: too little, and it stops exploring; too much, and it babbles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MEMORY: Final = 0.9
"""Of the running mean entropy, what is kept at each step."""


@dataclass(slots=True, kw_only=True)
class EntropyBand:
    """The coefficient of an entropy bonus, moved by `step` while the mean entropy is outside [low, high].

    Below the band it rises up to `most`; above, it falls down to −`most`, where entropy is a cost; inside, it returns
    to 0. A band from 0 to infinity never moves.
    """

    low: float
    """Nats a token."""
    high: float
    step: float = 0.001
    most: float = 0.02
    coefficient: float = 0.0
    mean: float | None = None

    def observe(self, entropy: float) -> float:
        """Take in a step's mean entropy; the coefficient for the next step."""
        self.mean = entropy if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * entropy
        if self.mean < self.low:
            self.coefficient = min(self.most, self.coefficient + self.step)
        elif self.mean > self.high:
            self.coefficient = max(-self.most, self.coefficient - self.step)
        elif abs(self.coefficient) <= self.step:
            self.coefficient = 0.0
        else:
            self.coefficient -= self.step if self.coefficient > 0 else -self.step
        return self.coefficient

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"coefficient": self.coefficient, "mean": self.mean}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.coefficient, self.mean = plain["coefficient"], plain["mean"]
