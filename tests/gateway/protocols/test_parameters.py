"""Which parameters ask for something, and what the gateway reads of them."""

from __future__ import annotations

from typing import Any

import pytest

from router.arms import Effort
from serving.gateway.errors import ApiError
from serving.gateway.protocols import parameters


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"n": 1, "store": False, "seed": None, "suffix": "", "tool_choice": "auto"}, set()),
        ({"presence_penalty": 0.0, "frequency_penalty": 0}, set()),
        ({"logprobs": False}, set()),
        ({"logprobs": 0}, {"logprobs"}),
        ({"n": True}, {"n"}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls"}),
        ({"parallel_tool_calls": True, "truncation": "disabled"}, set()),
        ({"user": "u", "metadata": {"a": "b"}, "service_tier": "flex", "safety_identifier": "s"}, set()),
        ({"reasoning_effort": "high", "reasoning": {"effort": "high"}}, set()),
        ({"anything": 0}, {"anything"}),
    ],
)
def test_parameters_that_ask_for_something(fields: dict[str, Any], expected: set[str]) -> None:
    """A default asks for nothing, nor does what the gateway honours itself: an effort bounds the arms."""
    assert parameters.set_parameters(fields) == expected


@pytest.mark.parametrize(
    ("tier", "expected"),
    [(None, None), ("flex", "flex"), ("standard", "default"), ("fast", "priority"), ("scale", "priority")],
)
def test_service_tier_names(tier: str | None, expected: str | None) -> None:
    """OpenAI has several names for one thing."""
    assert parameters.service_tier({"service_tier": tier}) == expected


def test_effort_names() -> None:
    """Every effort has OpenAI's name, and another is refused under the name that the client used."""
    assert parameters.effort("xhigh") is Effort.XHIGH
    assert parameters.effort(None) is None
    with pytest.raises(ApiError) as refused:
        parameters.effort(3, "reasoning.effort")
    assert refused.value.param == "reasoning.effort"
