"""The closed lists that the documentation repeats."""

from __future__ import annotations

from pathlib import Path

from router.decision import Reason
from serving.telemetry.budget_series import GAUGES
from serving.telemetry.shadow_series import RunEnd, Skip

DOCS = Path(__file__).parent.parent / "docs"


def test_every_reason_is_documented() -> None:
    """`x-tierwise-reason` never says what api.md does not know."""
    text = (DOCS / "api.md").read_text()
    assert not [reason for reason in Reason if f"`{reason.value}`" not in text]


def test_the_budgets_gauges_are_documented() -> None:
    """Every series that is named in router.md exists, and those that need explaining are named."""
    text = (DOCS / "router.md").read_text()
    assert all(
        f"`{name}`" in text for name in GAUGES if name not in {"price_ratio", "advised_price_of_compute"}
    )


def test_every_end_of_a_shadow_run_is_documented() -> None:
    """What the two series count is in router.md, word for word."""
    text = (DOCS / "router.md").read_text()
    assert not [label for label in (*RunEnd, *Skip) if f"`{label.value}`" not in text]
