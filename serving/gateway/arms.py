"""From settings and running engines to the router's arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.arms import Arm, Capabilities, Effort, Price
from serving.engines.base import EngineCapabilities
from serving.gateway.protocols.parameters import EFFORTS
from serving.gateway.protocols.responses_request import NATIVE_ONLY
from serving.settings import ArmSettings, Settings, TierSettings

ASSUMED = EngineCapabilities(
    model_id="",
    context_tokens=8192,
    num_slots=1,
    endpoints=frozenset({"chat", "completions", "responses"}),
)
"""What a tier is taken to offer while its engine has not been asked."""

_TYPICAL_TOKENS: Final = {"num_input_tokens": 750.0, "num_output_tokens": 250.0}
"""By the cost of such a request tiers are ranked: the dearer one is the stronger."""


def arms_of(settings: Settings, engines: Mapping[str, EngineCapabilities] | None = None) -> tuple[Arm, ...]:
    """The arms of a configuration.

    Args:
        settings: the tree.
        engines: by tier, what its engine offers; `ASSUMED` for a tier that is not in it.
    """
    engines = engines or {}
    ranks = _strengths(settings.tiers)
    return tuple(
        _arm(arm, settings.tiers[arm.tier], ranks[arm.tier], engines.get(arm.tier, ASSUMED))
        for arm in settings.resolved_arms
    )


def _strengths(tiers: Mapping[str, TierSettings]) -> dict[str, int]:
    """Rank of each tier by price, 0 the cheapest; equal prices rank as configured, the first the stronger."""
    order = list(tiers)
    by_price = sorted(
        order, key=lambda name: (_price(tiers[name]).cost(**_TYPICAL_TOKENS), -order.index(name))
    )
    return {name: rank for rank, name in enumerate(by_price)}


def _price(tier: TierSettings) -> Price:
    return Price(input=tier.price.input, output=tier.price.output)


def _arm(settings: ArmSettings, tier: TierSettings, strength: int, engine: EngineCapabilities) -> Arm:
    is_chatty = "chat" in engine.endpoints
    return Arm(
        name=settings.name,
        tier=settings.tier,
        price=_price(tier),
        capabilities=Capabilities(
            context_tokens=engine.context_tokens,
            endpoints=engine.endpoints | {"responses"} if is_chatty else engine.endpoints,
            modalities=engine.modalities,
            tools=engine.tools,
            structured_output=engine.structured_output,
            logprobs=engine.logprobs,
            unsupported_parameters=engine.unsupported_parameters | _untranslatable(engine),
        ),
        effort=EFFORTS.get(str(settings.request.get("reasoning_effort", "none")), Effort.NONE),
        strength=strength,
        request=settings.request,
    )


def _untranslatable(engine: EngineCapabilities) -> frozenset[str]:
    """What of the Responses API is lost on the way to chat, for an engine that has only that."""
    return frozenset() if "responses" in engine.endpoints else NATIVE_ONLY
