"""The ledger's settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class LedgerSettings(BaseModel):
    """Where records go and how often they are written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    """SQLAlchemy URL; `sqlite:///<home>/ledger.sqlite` where absent."""
    store_prompts: bool = False
    """Keep the text of the task with each decision."""
    flush_interval_s: float = Field(default=0.5, gt=0)
    max_buffered: int = Field(default=20_000, gt=0)
    """Records held in memory while the database is slow; beyond it records are dropped, counted and logged."""
