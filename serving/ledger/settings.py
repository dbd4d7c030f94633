"""The ledger's settings."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_serializer

_PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*(?=@)")


class LedgerSettings(BaseModel):
    """Where records go and how often they are written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(default=None, repr=False)
    """SQLAlchemy URL; `sqlite:///<home>/ledger.sqlite` where absent. One with a password belongs into the environment,
    as `TIERWISE_LEDGER__URL`; where settings are printed, the password is masked."""
    store_prompts: bool = False
    """Keep the text of the task with each decision."""
    flush_interval_s: float = Field(default=0.5, gt=0)
    """How long a record may wait in memory, and so what a kill may lose."""
    max_buffered: int = Field(default=20_000, gt=0)
    """Records held in memory while the database is slow; beyond it records are dropped, counted and logged."""

    @field_serializer("url")
    def _without_password(self, url: str | None) -> str | None:
        return None if url is None else _PASSWORD.sub(r"\1:***", url)
