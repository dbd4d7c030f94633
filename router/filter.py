"""Which arms cannot answer a request, and which the client ruled out. Everything else is left to the policy.

The order of the checks is fixed, so each arm gets the first thing that stands against it: the client's own
choice, then what the request needs of a tier, then the effort it allows, and last whether a replica is up. An
arm excluded as `UNAVAILABLE` could therefore have answered.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence

from router.arms import Arm
from router.decision import Exclusion
from router.request import RequestView

AUTO = "auto"
"""The `model` that leaves the choice to the router."""

TOKEN_ESTIMATE_SLACK = 0.8
"""An arm is only excluded for its context when even this share of the estimated prompt is too long for it:
the estimate of four characters a token is that rough, and the engine, which counts, answers for the rest with
its own error."""


class UnknownModelError(Exception):
    """`model` names nothing that is served here."""

    def __init__(self, model: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"the model {model!r} does not exist here{hint}")
        self.model = model
        self.nearest = nearest


def resolve_model(model: str, arms: Iterable[Arm], model_ids: Mapping[str, str]) -> str:
    """What the client's `model` selects: `auto`, the name of an arm, or that of a tier.

    A name that is both an arm's and a tier's is the arm. `model_ids` maps concrete ids to the tiers that
    serve them.

    Raises:
        UnknownModelError: it is none of these; the error carries the nearest name that is.
    """
    arms = tuple(arms)
    names = {AUTO} | {arm.name for arm in arms} | {arm.tier for arm in arms}
    if model in names:
        return model
    if model in model_ids:
        return model_ids[model]
    near = difflib.get_close_matches(model, names | set(model_ids), n=1)
    raise UnknownModelError(model, near[0] if near else None)


def exclude(view: RequestView, arms: Sequence[Arm]) -> dict[str, Exclusion]:
    """The arms that are not to be considered for `view`, each with the first reason against it.

    The client's choice is the first of these that is given: `x-tierwise-arm`; a `model` other than `auto`; a
    `service_tier` of `flex` (the cheapest tier, by strength) or `priority` (the strongest).
    """
    is_wanted = _client_choice(view, arms)
    offers = _endpoint_rule(view, arms)
    fits = _context_rule(view, arms)
    excluded: dict[str, Exclusion] = {}
    for arm in arms:
        reason = _first_against(view, arm, is_wanted=is_wanted, offers=offers, fits=fits)
        if reason is not None:
            excluded[arm.name] = reason
    return excluded


def _first_against(
    view: RequestView,
    arm: Arm,
    *,
    is_wanted: Callable[[Arm], bool],
    offers: Callable[[Arm], bool],
    fits: Callable[[Arm], bool],
) -> Exclusion | None:
    can = arm.capabilities
    checks = (
        (Exclusion.CLIENT, is_wanted(arm)),
        (Exclusion.ENDPOINT, offers(arm)),
        (Exclusion.CONTEXT, fits(arm)),
        (Exclusion.MODALITY, view.modalities <= can.modalities),
        (Exclusion.TOOLS, can.tools or not (view.num_tools or view.is_tool_loop)),
        (Exclusion.SCHEMA, can.structured_output or not view.needs_schema),
        (Exclusion.LOGPROBS, can.logprobs or not view.needs_logprobs),
        (Exclusion.PARAMETER, view.parameters.isdisjoint(can.unsupported_parameters)),
        (Exclusion.EFFORT, view.max_effort is None or arm.effort <= view.max_effort),
        (Exclusion.UNAVAILABLE, arm.is_available),
    )
    return next((reason for reason, holds in checks if not holds), None)


def _client_choice(view: RequestView, arms: Sequence[Arm]) -> Callable[[Arm], bool]:
    if view.wanted_arm is not None:
        return lambda arm: arm.name == view.wanted_arm
    if view.model != AUTO:
        if any(arm.name == view.model for arm in arms):
            return lambda arm: arm.name == view.model
        return lambda arm: arm.tier == view.model
    if arms and view.service_tier in {"flex", "priority"}:
        pick = min if view.service_tier == "flex" else max
        strength = pick(arm.strength for arm in arms)
        return lambda arm: arm.strength == strength
    return lambda arm: True


def _endpoint_rule(view: RequestView, arms: Sequence[Arm]) -> Callable[[Arm], bool]:
    """Whether the endpoint is offered; embeddings, where the client names no tier, by the cheapest that has
    them.

    Vectors of two models cannot be compared, so the router must not choose between them request by request.
    """
    offering = [arm for arm in arms if view.endpoint in arm.capabilities.endpoints]
    if view.endpoint == "embeddings" and _is_left_to_router(view):
        strength = min((arm.strength for arm in offering), default=0)
        offering = [arm for arm in offering if arm.strength == strength]
    names = {arm.name for arm in offering}
    return lambda arm: arm.name in names


def _is_left_to_router(view: RequestView) -> bool:
    has_tier = view.service_tier in {"flex", "priority"}
    return view.wanted_arm is None and view.model == AUTO and not has_tier


def _context_rule(view: RequestView, arms: Sequence[Arm]) -> Callable[[Arm], bool]:
    """Whether an arm's window is long enough: for prompt and longest answer where any arm's is, else for the
    prompt.

    So a client that always sends a huge `max_tokens` is sent to the longest window and not refused.
    """
    prompt = TOKEN_ESTIMATE_SLACK * view.num_input_tokens
    whole = prompt + (view.max_output_tokens or 0)
    longest = max((arm.capabilities.context_tokens for arm in arms), default=0)
    needed = whole if whole <= longest else prompt
    return lambda arm: needed <= arm.capabilities.context_tokens
