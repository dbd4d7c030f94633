"""The `[shadow]` node of the settings: how much is asked a second time of another arm, and who compares the answers."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from serving.engines.base import SettingsNode

_ARM: Final = "arm:"


class ShadowSettings(SettingsNode):
    """Duplicates of answered requests, sent to an arm that was not chosen."""

    share: float = Field(0.0, ge=0, le=1)
    """Of the requests, drawn by lot; 0 for none."""
    max_cost_per_hour: float | None = Field(None, ge=0)
    """In the money of the tiers' prices, over any hour, judges included. A run that is expected to take more than is
    left of it is not begun; one that takes more than was expected leaves less to the next. Needed where `share` is."""
    max_in_flight: int = Field(1, gt=0)
    """Runs at once."""
    only_when_idle: bool = True
    """Begin only where no client's request is with the tier, nor with another engine of this machine, and give way to
    the first that comes. Else a run takes a place that is free, and gives way to whoever would wait for it."""
    judge: str = Field("agreement", pattern=r"^(agreement|none|arm:.+)$")
    """Who compares: `agreement` of short answers, `arm:<name>` for an arm that is asked which is better, or `none`."""
    max_body_bytes: int = Field(2**16, gt=0)
    """Longer requests are not duplicated."""

    @model_validator(mode="after")
    def _has_a_cap(self) -> Self:
        if self.share and self.max_cost_per_hour is None:
            raise ValueError(
                "`share` needs `max_cost_per_hour`: the most that shadow runs may cost in an hour"
            )
        return self

    @property
    def is_by_agreement(self) -> bool:
        """Whether a rule compares the answers."""
        return self.judge == "agreement"

    @property
    def judging_arm(self) -> str | None:
        """The arm that judges; None where none does."""
        return self.judge.removeprefix(_ARM) if self.judge.startswith(_ARM) else None
