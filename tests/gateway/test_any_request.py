"""Whatever JSON a client sends, it is answered or refused: no request is a mistake of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.arms import Arm, Capabilities, Price
from serving.engines.base import EngineCapabilities
from serving.gateway.body import parse_object
from serving.gateway.errors import ApiError
from serving.gateway.front import ADAPTERS
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target

ENGINE = EngineCapabilities(
    model_id="m",
    context_tokens=8192,
    num_slots=1,
    endpoints=frozenset({"chat", "completions", "embeddings"}),
    unsupported_parameters=frozenset({"store", "prediction", "user", "suffix"}),
)
TARGET = Target(
    arm=Arm(
        name="a",
        tier="t",
        strength=0,
        price=Price(input=1.0, output=4.0),
        capabilities=Capabilities(context_tokens=8192),
        request={"top_k": 1},
    ),
    engine=ENGINE,
    service_tier="flex",
)
NAMES = (
    *(
        "model",
        "messages",
        "prompt",
        "input",
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "tools",
        "tool_choice",
    ),
    *(
        "response_format",
        "logprobs",
        "top_logprobs",
        "service_tier",
        "reasoning_effort",
        "reasoning",
        "instructions",
    ),
    *(
        "functions",
        "prompt_cache_key",
        "max_completion_tokens",
        "max_output_tokens",
        "text",
        "store",
        "suffix",
        "user",
    ),
    *(
        "metadata",
        "include",
        "previous_response_id",
        "background",
        "truncation",
        "best_of",
        "echo",
        "modalities",
    ),
)
INNER = (
    *(
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "function",
        "name",
        "parameters",
        "tool_calls",
        "call_id",
    ),
    *(
        "output",
        "arguments",
        "id",
        "format",
        "effort",
        "summary",
        "include_usage",
        "json_schema",
        "schema",
        "strict",
    ),
    *(
        "input_text",
        "input_image",
        "message",
        "function_call",
        "function_call_output",
        "item_reference",
        "user",
    ),
    *("assistant", "tool", "developer", "json_object", "auto", "none", "medium", "flex"),
)

scalars = st.none() | st.booleans() | st.integers(-2, 5) | st.floats(allow_nan=False) | st.sampled_from(INNER)
values = st.recursive(
    scalars | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=4),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(("user", "tool", "system", "assistant"))},
        optional={"content": values, "tool_calls": values},
    ),
    max_size=3,
)
requests = st.dictionaries(st.sampled_from(NAMES), values, max_size=6) | st.builds(
    lambda told, more: {"messages": told, "input": told, "prompt": "p", **more},
    messages,
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
)


@pytest.mark.parametrize("path", ADAPTERS)
@settings(max_examples=150, deadline=None)
@given(requests)
@example({"messages": [{"role": "user", "content": [{"type": ["x"]}]}], "input": [{"type": {}}]})
@example({"messages": [{"role": "user", "content": "\ud800"}], "input": "\ud800", "prompt": "\ud800"})
def test_a_request_is_taken_or_refused(path: str, request: dict[str, Any]) -> None:
    """Reading and forwarding any object raises nothing but errors for the client, and what is forwarded is JSON."""
    adapter = ADAPTERS[path]()
    raw = json.dumps(request).encode()
    try:
        fields = parse_object(raw)
        adapter.is_streaming(fields)
        view = adapter.view(fields, Levers())
        assert view.num_input_tokens >= 0
        forward = adapter.forward(raw, fields, TARGET)
    except ApiError as refusal:
        refused = refusal.status, json.loads(refusal.body)["error"]["message"]
        assert refused[0] in {400, 404} and refused[1]  # noqa: PT018 - either is right
        return
    assert json.loads(forward.body)["model"] == "m"
