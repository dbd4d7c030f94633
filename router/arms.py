"""Arms: the ways in which a request can be answered, each a tier at an effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Effort(IntEnum):
    """How much an arm works on a request; more is more. The names are OpenAI's `reasoning_effort` values."""

    NONE = 0
    MINIMAL = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    XHIGH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Money per million tokens, in any one currency for all tiers."""

    input: float
    output: float

    def cost(self, *, num_input_tokens: float, num_output_tokens: float) -> float:
        """The price of so many tokens, in the currency's unit."""
        return (self.input * num_input_tokens + self.output * num_output_tokens) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a tier can do. A request that needs more never reaches it (`router.filter`)."""

    context_tokens: int
    endpoints: frozenset[str] = frozenset({"chat", "completions", "responses"})
    """Of `chat`, `completions`, `responses`, `embeddings`: what the gateway can answer from this tier."""
    modalities: frozenset[str] = frozenset({"text"})
    tools: bool = True
    structured_output: bool = True
    logprobs: bool = True
    unsupported_parameters: frozenset[str] = frozenset()
    """Request members that the engine would drop without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A way to answer: a tier, at an effort, with what that adds to the request body."""

    name: str
    tier: str
    price: Price
    capabilities: Capabilities
    effort: Effort = Effort.NONE
    strength: int
    """Rank of the tier among all tiers by price, 0 the cheapest: the order in which doubt goes up."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Members merged into the request body when this arm answers."""
    is_available: bool = True
    """False while no replica of the tier can take a request."""


def named_arms(names: Sequence[str]) -> list[Arm]:
    """Arms of which nothing is known but names and order, weakest first: a model that is judged looks at no more."""
    return [
        Arm(
            name=name,
            tier=name,
            price=Price(input=0.0, output=0.0),
            capabilities=Capabilities(context_tokens=1),
            strength=strength,
        )
        for strength, name in enumerate(names)
    ]
