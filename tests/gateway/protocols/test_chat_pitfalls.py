"""Requests whose members are each in order and that an engine chokes on all the same."""

from __future__ import annotations

from typing import Any

import pytest

from serving.engines.llamacpp_dialect import unsupported_parameters
from serving.gateway.levers import Levers
from serving.gateway.protocols.chat import ChatAdapter
from serving.gateway.protocols.parameters import LARGE_ENUM, MALFORMED_CALL, MAX_ENUM_VALUES, PITFALLS


def parameters_of(**fields: Any) -> frozenset[str]:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return ChatAdapter().view(body, Levers()).parameters


def called_with(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]


def schema(num_values: int) -> dict[str, Any]:
    values = {"type": "string", "enum": [str(i) for i in range(num_values)]}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": values}}}}


@pytest.mark.parametrize("arguments", ["{", "not json", "[" * 100_000, ""])
def test_arguments_that_are_not_json_are_a_pitfall(arguments: str) -> None:
    """Cut off, absent, or nested beyond what a parser takes: llama.cpp would fail, or end, on each."""
    assert MALFORMED_CALL in parameters_of(messages=called_with(arguments))


@pytest.mark.parametrize("arguments", ["{}", '{"a": [1, 2]}', None])
def test_arguments_that_are_json_are_none(arguments: Any) -> None:
    """What a model wrote rightly is no obstacle to any tier."""
    assert MALFORMED_CALL not in parameters_of(messages=called_with(arguments))


def test_only_large_enums_are_a_pitfall() -> None:
    """The limit itself is allowed."""
    assert LARGE_ENUM not in parameters_of(response_format=schema(MAX_ENUM_VALUES))
    assert LARGE_ENUM in parameters_of(response_format=schema(MAX_ENUM_VALUES + 1))


def test_llamacpp_is_spared_both() -> None:
    """The embedded engine's tiers are not asked to read either."""
    assert set(PITFALLS) <= unsupported_parameters(takes_effort=True, forces_calls=True)
