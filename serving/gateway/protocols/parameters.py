"""Request parameters that the gateway itself reads, and which of them differ from their default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.arms import Effort
from serving.gateway.body import REMOVED, require
from serving.gateway.errors import invalid
from serving.gateway.protocols.base import Target

SERVICE_TIERS: Final = ("auto", "default", "flex", "priority", "scale", "standard", "fast")
EFFORTS: Final = {effort.name.lower(): effort for effort in Effort}

DEFAULTS: Final[Mapping[str, Any]] = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "store": False,
    "stream": False,
    "logprobs": False,
    "suffix": "",
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "parallel_tool_calls": True,
    "verbosity": "medium",
    "modalities": ["text"],
    "background": False,
    "truncation": "disabled",
}
"""Values that ask for nothing: setting a parameter to its default does not need an engine that knows it."""

OURS: Final = frozenset(
    {
        "service_tier",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "metadata",
        "reasoning_effort",
        "reasoning",
    }
)
"""Parameters that the gateway honours itself, or that ask nothing of an engine. An effort is a bound on the arms."""


MALFORMED_CALL: Final = "messages[].tool_calls[].function.arguments"
LARGE_ENUM: Final = "response_format.json_schema.schema.enum"
MAX_ENUM_VALUES: Final = 500
PITFALLS: Final = {
    MALFORMED_CALL: "The arguments of an earlier tool call are not JSON, which no tier that was asked for can read.",
    LARGE_ENUM: f"The schema allows more than {MAX_ENUM_VALUES} values, which would hold up every other request.",
}
"""What an engine may choke on though each member by itself is in order: counted among `RequestView.parameters`."""


def set_parameters(fields: Mapping[str, Any]) -> frozenset[str]:
    """Names of the members that are set to something other than their default."""
    return frozenset(
        name
        for name, value in fields.items()
        if value is not None and name not in OURS and not _is_default(name, value)
    )


def _is_default(name: str, value: Any) -> bool:
    """Equal and of one type, except that 0 and 0.0 are the same: `logprobs=0` asks for something, `False` does not."""
    if name == "tool_choice":
        return value in (
            "auto",
            "none",
        )  # what an engine does that knows tools and cannot be made to call one
    if name not in DEFAULTS:
        return False
    default = DEFAULTS[name]
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def model_of(fields: Mapping[str, Any]) -> str:
    """The `model` asked for; `auto` where it is absent."""
    model = require(fields, "model", str, "a string")
    return model or "auto"


def is_streaming(fields: Mapping[str, Any]) -> bool:
    """`stream`, checked."""
    return bool(require(fields, "stream", bool, "true or false"))


def wants_usage(fields: Mapping[str, Any]) -> bool:
    """`stream_options.include_usage`, checked."""
    options = require(fields, "stream_options", dict, "an object")
    if options is not None and not is_streaming(fields):
        raise invalid("`stream_options` is only allowed with `stream: true`.", "stream_options")
    return bool((options or {}).get("include_usage"))


def wants_chunk_usage(fields: Mapping[str, Any]) -> bool:
    """`stream_options.continuous_usage_stats`, which is vLLM's own."""
    return bool((fields.get("stream_options") or {}).get("continuous_usage_stats"))


def count(fields: Mapping[str, Any], name: str, *, default: int | None = None, least: int = 1) -> int | None:
    """A positive whole number, or `default`."""
    value = require(fields, name, int, "a whole number")
    if value is not None and value < least:
        raise invalid(f"`{name}` must be at least {least}; it is {value}.", name, "integer_below_min_value")
    return default if value is None else int(value)


def service_tier(fields: Mapping[str, Any]) -> str | None:
    """`service_tier`, one of OpenAI's."""
    tier = require(fields, "service_tier", str, "a string")
    if tier is not None and tier not in SERVICE_TIERS:
        raise invalid(
            f"`service_tier` must be one of {', '.join(SERVICE_TIERS)}; it is {tier!r}.", "service_tier"
        )
    return {"standard": "default", "fast": "priority", "scale": "priority"}.get(tier, tier) if tier else None


def effort(value: Any, param: str = "reasoning_effort") -> Effort | None:
    """A `reasoning_effort` as an `Effort`: no arm above it will be considered."""
    if value is None:
        return None
    known = EFFORTS.get(value) if isinstance(value, str) else None
    if known is None:
        raise invalid(f"`{param}` must be one of {', '.join(EFFORTS)}.", param)
    return known


def for_target(fields: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """What every upstream body differs in: the engine's name of the model, what the arm adds, what is ours to honour.

    An engine that knows no efforts is not told the client's: the arm keeps within that bound by itself.
    """
    unknown = target.engine.unsupported_parameters
    removed = OURS & unknown & fields.keys()
    unset = {
        name for name in unknown & fields.keys() if _is_default(name, fields[name]) or fields[name] is None
    }
    return {
        **dict.fromkeys(removed | unset | ({"service_tier"} & fields.keys()), REMOVED),
        **target.arm.request,
        "model": target.engine.model_id,
    }


def is_assembled(fields: Mapping[str, Any], target: Target) -> bool:
    """Whether a whole answer has to be asked for as a stream.

    So that the usage of every choice is told, or that its first tokens are seen before the rest is made.
    """
    has_uncounted = target.engine.counts_one_choice and (count(fields, "n", default=1) or 1) > 1
    return (has_uncounted or target.wants_first_tokens) and not is_streaming(fields)


def stream_changes(fields: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """What the upstream body asks for in a stream: its usage, whether or not the client wants to see it."""
    if is_streaming(fields):
        return {"stream_options": {**(fields.get("stream_options") or {}), "include_usage": True}}
    if is_assembled(fields, target):
        return {"stream": True, "stream_options": {"include_usage": True}}
    return {}
