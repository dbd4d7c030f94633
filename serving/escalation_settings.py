"""The `[router.escalation]` node of the settings: which answers are held back, how long, and how they are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from router.escalation import Band
from serving.engines.base import SettingsNode


class EscalationSettings(SettingsNode):
    """Hold-back of doubtful answers."""

    enabled: bool = False
    """Off, because on the released tiers it does not pay (docs/router.md, "Escalate")."""
    lowest_probability: float = Field(0.0, ge=0, le=1)
    """Of the forecasts that are doubtful, the lowest."""
    highest_probability: float = Field(0.9, ge=0, le=1)
    """And the highest: an answer that is likelier to be good is never held."""
    max_tokens: int = Field(8, ge=1)
    """How many tokens may be held back."""
    max_ms: float = Field(500.0, gt=0)
    """How long a token of a stream may wait; then the answer is passed on."""
    model: Path | None = None
    """A file of `tierwise route escalation --save`; that of the released tiers where absent."""

    @field_validator("model")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()

    @model_validator(mode="after")
    def _is_band(self) -> Self:
        if self.lowest_probability > self.highest_probability:
            raise ValueError("`lowest_probability` is above `highest_probability`: no forecast lies between")
        return self

    @property
    def band(self) -> Band:
        """The doubtful band."""
        return Band(low=self.lowest_probability, high=self.highest_probability)
