"""The `[shadow]` node."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from serving.settings import Settings
from serving.shadow_settings import ShadowSettings

TIERS = {
    name: {
        "engine": {"type": "external", "urls": ["http://127.0.0.1:1"]},
        "price": {"input": 1, "output": 1},
    }
    for name in ("fast", "full")
}


def test_it_is_off_by_default() -> None:
    """Nobody pays for what was not asked for."""
    assert ShadowSettings().share == 0


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"share": 0.1}, "max_cost_per_hour"),
        ({"share": 1.5, "max_cost_per_hour": 1}, "less than or equal to 1"),
        ({"judge": "best"}, "judge"),
        ({"judge": "arm:"}, "judge"),
        ({"judge": "arm:ful"}, "the arms are"),
    ],
)
def test_what_makes_no_sense_is_refused(members: dict[str, Any], message: str) -> None:
    """A share without a cap, a judge that there is not."""
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"tiers": TIERS, "shadow": members})


def test_an_arm_may_judge() -> None:
    """Any that is configured."""
    settings = Settings.model_validate({"tiers": TIERS, "shadow": {"judge": "arm:full"}})
    assert (settings.shadow.judging_arm, settings.shadow.is_by_agreement) == ("full", False)
    assert (ShadowSettings().judging_arm, ShadowSettings().is_by_agreement) == (None, True)
