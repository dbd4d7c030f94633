"""The choice among arms: the best of `p − λ·price`, above a quality floor, below a client's greatest cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from router.arms import Arm
from router.choice import Choice, ValueRule, explore
from router.decision import Candidate, Decision, Exclusion, NoArmError, Reason
from router.difficulty import DifficultyModel, Forecast
from router.doubt import NO_DOUBT, Doubt, goes_up
from router.filter import AUTO, exclude
from router.offer import ArmOffer, Offer, Spend
from router.pricing import NO_CHANCE, Draws, Pricing
from router.request import RequestView
from router.session import NOTHING, Recollection

POLICY_VERSION = "value-3"

_CAPABILITY = frozenset(
    {
        Exclusion.ENDPOINT,
        Exclusion.CONTEXT,
        Exclusion.MODALITY,
        Exclusion.TOOLS,
        Exclusion.SCHEMA,
        Exclusion.LOGPROBS,
        Exclusion.PARAMETER,
    }
)

# exclusion: (what to tell the client, the parameter at fault). The later of two is told: it came nearer to an
# answer.
_REFUSALS: Mapping[Exclusion, tuple[str, str | None]] = {
    Exclusion.CLIENT: ("no arm goes by the name that was asked for", "model"),
    Exclusion.ENDPOINT: ("no tier offers this endpoint", None),
    Exclusion.CONTEXT: ("the prompt is longer than the context of every tier that was asked for", "messages"),
    Exclusion.MODALITY: ("no tier that was asked for takes this kind of input", "messages"),
    Exclusion.TOOLS: ("no tier that was asked for can call tools", "tools"),
    Exclusion.SCHEMA: ("no tier that was asked for can hold an answer to a schema", "response_format"),
    Exclusion.LOGPROBS: ("no tier that was asked for returns log-probabilities", "logprobs"),
    Exclusion.PARAMETER: ("no tier that was asked for heeds a parameter", None),
    Exclusion.EFFORT: (
        "every arm that was asked for works harder than `reasoning_effort` allows",
        "reasoning_effort",
    ),
    Exclusion.MAX_COST: ("every arm is expected to cost more than is allowed", "x-tierwise-max-cost"),
    Exclusion.UNAVAILABLE: ("no replica of a tier that could answer is up", None),
}


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """Decides, purely: the same view, arms, pricing, draws and recollection always get the same decision."""

    model: DifficultyModel
    min_quality: float = 0.0
    """The least probability of success to accept while some arm reaches it. A client may ask for more, not
    for less."""
    exploration_share: float = 0.0
    """The share of requests whose arm is drawn by lot, among the arms that reach the quality asked for."""

    def decide(
        self,
        view: RequestView,
        arms: Sequence[Arm],
        pricing: Pricing,
        *,
        draws: Draws = NO_CHANCE,
        recollection: Recollection = NOTHING,
        doubt: Doubt = NO_DOUBT,
        forecasts: Mapping[str, Forecast] | None = None,
    ) -> Decision:
        """The arm that answers `view`.

        Among the arms that `router.filter` leaves and the client can afford, the best value; of equal values
        the dearer. If that falls short of the quality asked for, the cheapest arm that reaches it, or the
        likeliest one (`router.staircase`). A tool loop stays on its arm while that is left, and of a request whose
        forecasts are not supported the strongest arm alone is left (`router.doubt`).

        Args:
            forecasts: of each of `arms`, where they have been made already.

        Raises:
            NoArmError: none is left.
        """
        candidates = self.consider(
            view, arms, pricing, recollection=recollection, doubt=doubt, forecasts=forecasts
        )
        excluded = {c.arm: c.excluded for c in candidates if c.excluded is not None}
        open_to = [c for c in candidates if c.excluded is None] if excluded else candidates
        if not open_to:
            raise _refusal(view, arms, excluded)
        offer = offer_of(
            open_to,
            self.floor(view),
            is_curtailed=bool(excluded) and Exclusion.UNAVAILABLE in excluded.values(),
        )
        rule = ValueRule(pricing, pricing.drawn(draws.price))
        choice = rule.choose(offer)
        reason = _forced_reason(view, excluded, num_arms=len(arms))
        share = self.exploration_share if reason is None else 0.0
        if reason is None:
            if share:
                choice = explore(choice, offer, share=share, uniform=draws.exploration)
            reason = _reason(choice, rule, offer, candidates)
        chosen = open_to[choice.position]
        return Decision(
            arm=chosen.arm,
            tier=chosen.tier,
            reason=reason,
            success_probability=chosen.success_probability,
            expected=chosen.expected,
            candidates=candidates,
            offer=offer,
            position=choice.position,
            metric=pricing.metric,
            price_of_compute=rule.price_of_compute,
            propensity=choice.chance,
            chances=choice.chances,
            terms=rule.terms(exploration_share=share),
            lot=draws.exploration,
            policy_version=POLICY_VERSION,
            artifact_version=self.model.version,
            doubts=doubt.kinds,
        )

    def consider(
        self,
        view: RequestView,
        arms: Sequence[Arm],
        pricing: Pricing,
        *,
        recollection: Recollection = NOTHING,
        doubt: Doubt = NO_DOUBT,
        forecasts: Mapping[str, Forecast] | None = None,
    ) -> tuple[Candidate, ...]:
        """Every arm with its forecast and what stands against it, in order."""
        excluded = exclude(view, arms)
        if forecasts is None:
            forecasts = self.model.forecast(view, arms)
        probabilities = {arm: forecast.success_probability for arm, forecast in forecasts.items()}
        weighed = recollection.weighed(probabilities)
        strongest = max([arm.strength for arm in arms], default=0)
        candidates = []
        for arm in arms:
            cost = expected_cost(view, arm, forecasts[arm.name])
            against = excluded.get(arm.name)
            if against is None and view.max_cost is not None and cost > view.max_cost:
                against = Exclusion.MAX_COST
            spend = Spend(
                cost=cost,
                engine_seconds=pricing.engine_seconds.get(arm.name, 0.0),
                full_share=1.0 if arm.strength == strongest else 0.0,
            )
            candidates.append(
                Candidate(
                    arm=arm.name,
                    tier=arm.tier,
                    success_probability=probabilities[arm.name],
                    weighed_probability=weighed[arm.name],
                    expected=spend,
                    excluded=against,
                    raw_probability=forecasts[arm.name].raw_probability,
                )
            )
        if view.is_tool_loop and recollection.pinned_arm is not None:
            candidates = _left_alone(recollection.pinned_arm, candidates, Exclusion.PINNED)
        open_to = [arm for arm, c in zip(arms, candidates, strict=True) if c.excluded is None]
        spends = {c.arm: c.expected for c in candidates}
        top = goes_up(open_to, forecasts, spends, metric=pricing.metric, max_price=doubt.max_price)
        return tuple(candidates if top is None else _left_alone(top, candidates, Exclusion.DOUBT))

    def floor(self, view: RequestView) -> float:
        """The least probability of success to accept for `view` while some arm reaches it."""
        return max(self.min_quality, view.min_quality or 0.0)


def offer_of(candidates: Sequence[Candidate], floor: float, *, is_curtailed: bool = False) -> Offer:
    """These candidates as an offer, in their order; at least one."""
    return Offer(
        arms=tuple(
            [ArmOffer(success_probability=c.weighed_probability, expected=c.expected) for c in candidates]
        ),
        quality_floor=floor,
        is_curtailed=is_curtailed,
    )


def expected_cost(view: RequestView, arm: Arm, forecast: Forecast) -> float:
    """Money that `arm` is expected to take for `view`: each of its `n` answers no longer than `max_tokens`
    allows."""
    num_tokens = forecast.num_output_tokens
    if view.max_output_tokens is not None:
        num_tokens = min(num_tokens, view.max_output_tokens)
    return arm.price.cost(
        num_input_tokens=view.num_input_tokens, num_output_tokens=num_tokens * view.num_choices
    )


def _left_alone(arm: str, candidates: list[Candidate], why: Exclusion) -> list[Candidate]:
    """`candidates` with `arm` alone left open, where it is open at all."""
    if not any(c.arm == arm and c.excluded is None for c in candidates):
        return candidates
    return [c if c.arm == arm or c.excluded is not None else replace(c, excluded=why) for c in candidates]


def _forced_reason(view: RequestView, excluded: Mapping[str, Exclusion], *, num_arms: int) -> Reason | None:
    """Why nothing was left to the value rule, where nothing was."""
    reason = _client_reason(view) or _only_reason(excluded, num_arms=num_arms)
    if reason is not None:
        return reason
    left_alone = {Exclusion.PINNED: Reason.TOOL_LOOP_PIN, Exclusion.DOUBT: Reason.OUT_OF_DISTRIBUTION}
    return next((left_alone[why] for why in excluded.values() if why in left_alone), None)


def _reason(choice: Choice, rule: ValueRule, offer: Offer, candidates: Sequence[Candidate]) -> Reason:
    """What moved the choice furthest from the best value of all, the client's limit first."""
    if choice.is_drawn:
        return Reason.EXPLORATION
    if len(offer.arms) < len(candidates):
        open_to = [c for c in candidates if c.excluded is None]
        wished = [c for c in candidates if c.excluded in (None, Exclusion.MAX_COST)]
        wish = wished[rule.choose(offer_of(wished, offer.quality_floor)).position]
        if wish is not open_to[choice.position]:
            return Reason.MAX_COST
    if any(c.weighed_probability != c.success_probability for c in candidates):
        alone = [
            replace(c, weighed_probability=c.success_probability) for c in candidates if c.excluded is None
        ]
        if rule.choose(offer_of(alone, offer.quality_floor)).position != choice.position:
            return Reason.SESSION_MEMORY
    usual = rule.undoubted
    if usual is not None and usual.choose(offer).position != choice.position:
        return Reason.CONSERVATIVE
    if offer.quality_floor and rule.falls_short(offer):
        return Reason.QUALITY_FLOOR
    return Reason.BEST_VALUE


def _client_reason(view: RequestView) -> Reason | None:
    if view.wanted_arm is not None:
        return Reason.CLIENT_ARM
    if view.model != AUTO:
        return Reason.CLIENT_MODEL
    if view.service_tier in {"flex", "priority"}:
        return Reason.CLIENT_SERVICE_TIER
    return None


def _only_reason(excluded: Mapping[str, Exclusion], *, num_arms: int) -> Reason | None:
    """Why there was no choice, where there was none; a router with one arm has only one that is capable."""
    against = set(excluded.values())
    if len(excluded) < num_arms - 1 or not against <= _CAPABILITY | {Exclusion.UNAVAILABLE}:
        return None
    return Reason.ONLY_AVAILABLE if Exclusion.UNAVAILABLE in against else Reason.ONLY_CAPABLE


def _refusal(view: RequestView, arms: Sequence[Arm], exclusions: dict[str, Exclusion]) -> NoArmError:
    order = list(_REFUSALS)
    nearest = max(exclusions.values(), key=order.index, default=Exclusion.CLIENT)
    message, param = _REFUSALS[nearest]
    if nearest is Exclusion.CLIENT and view.wanted_arm is not None:
        param = "x-tierwise-arm"
    if nearest is Exclusion.PARAMETER:
        arm = next(arm for arm in arms if exclusions[arm.name] is nearest)
        param = min(view.parameters & arm.capabilities.unsupported_parameters)
        message = f"no tier that was asked for heeds `{param}`"
    return NoArmError(message, exclusions=exclusions, param=param)
