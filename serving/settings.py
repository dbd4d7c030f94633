"""The serving process's settings: one frozen tree, resolved from defaults < one TOML file < environment < command line.

Each node stands beside its owner and is put together here. `serving.settings_sources` does the resolving.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from serving.budget_settings import BudgetSettings, RouterSettings
from serving.engines.base import SettingsNode
from serving.engines.external import ExternalSettings
from serving.engines.llamacpp import LlamaCppSettings
from serving.ledger.settings import LedgerSettings
from serving.shadow_settings import ShadowSettings

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Of a tier or an arm: it stands in headers, metrics, URLs and file names."""
EngineSettings = Annotated[LlamaCppSettings | ExternalSettings, Field(discriminator="type")]


def default_home() -> Path:
    """`$XDG_DATA_HOME/tierwise`, or `~/.local/share/tierwise`."""
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data_home) / "tierwise"


class PriceSettings(SettingsNode):
    """What a tier charges, per million tokens, in any one currency."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class DeadlineSettings(SettingsNode):
    """How long to wait for an upstream. Seconds; each is its own clock."""

    connect_s: float = Field(2.0, gt=0)
    """TCP connection."""
    first_token_s: float = Field(120.0, gt=0)
    """Request sent → first byte of the answer's body."""
    idle_s: float = Field(60.0, gt=0)
    """Between two reads of a stream."""
    total_s: float = Field(600.0, gt=0)
    """From arrival to the last byte."""


class TierSettings(SettingsNode):
    """One tier: a model, the engine that runs it, and its price."""

    model: str | None = None
    """A registry reference (`full@stable`, `name:version`) or a path to a GGUF file; absent for external engines."""
    engine: EngineSettings
    price: PriceSettings
    deadlines: DeadlineSettings = DeadlineSettings()
    max_in_flight: int | None = Field(None, gt=0)
    """Requests at once per replica; the engine's own number of slots where absent."""

    @model_validator(mode="after")
    def _has_model_where_needed(self) -> Self:
        if self.engine.type == "llamacpp" and self.model is None:
            raise ValueError('a llamacpp tier needs `model`, for example model = "full@stable"')
        if self.engine.type == "external" and self.model is not None:
            raise ValueError("an external tier names its model in `engine.model`, not in `model`")
        return self


class ArmSettings(SettingsNode):
    """A way to answer: a tier and what is merged into the request body."""

    name: Name
    tier: str
    request: dict[str, Any] = Field(default_factory=dict)


class GatewaySettings(SettingsNode):
    """The HTTP front."""

    host: str = "127.0.0.1"
    """A host that is not loopback is refused unless API keys exist (`tierwise keys create`)."""
    port: int = Field(8000, ge=0, le=65535)
    require_key: bool = False
    """Ask every /v1 request for an API key. Always so on a public host."""
    max_body_bytes: int = Field(32 * 2**20, gt=0)
    """Larger requests get 413."""
    max_queue: int = Field(256, ge=0)
    """Requests that may wait for a replica, per tier; more get 429."""
    queue_timeout_s: float = Field(30.0, gt=0)
    """How long one may wait there."""
    drain_s: float = Field(30.0, ge=0)
    """On SIGTERM: how long running requests may take to finish before they are ended with an error event."""
    expose_vendor_fields: bool = False
    """Pass an engine's own response members (`timings`, …) to the client."""


class Settings(SettingsNode):
    """The whole tree."""

    home: Path = Field(default_factory=default_home)
    """Where the registry, the ledger, the API keys and the budget's state live."""
    gateway: GatewaySettings = GatewaySettings()
    tiers: dict[Name, TierSettings] = Field(min_length=1)
    arms: tuple[ArmSettings, ...] = ()
    """Where absent: one arm a tier, of the tier's name."""
    router: RouterSettings = RouterSettings()
    budget: BudgetSettings = BudgetSettings()
    ledger: LedgerSettings = LedgerSettings()
    shadow: ShadowSettings = ShadowSettings()

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        for arm in self.arms:
            if arm.tier not in self.tiers:
                raise ValueError(
                    f"arm {arm.name!r} names tier {arm.tier!r}; the tiers are {sorted(self.tiers)}"
                )
        names = [arm.name for arm in self.arms]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two arms are named {name!r}; rename one")
        for name in {"auto"} & (set(self.tiers) | set(names)):
            raise ValueError(
                f"{name!r} asks the router to choose and cannot name a tier or an arm; rename it"
            )
        judge, known = self.shadow.judging_arm, [arm.name for arm in self.resolved_arms]
        if judge is not None and judge not in known:
            raise ValueError(f"shadow.judge names the arm {judge!r}; the arms are {known}")
        return self

    @property
    def resolved_arms(self) -> tuple[ArmSettings, ...]:
        """The arms as configured, or one for each tier."""
        return self.arms or tuple(ArmSettings(name=tier, tier=tier) for tier in self.tiers)
