"""The choice among arms: the best of `p − λ·cost`, above a quality floor, below a client's greatest cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from router.arms import Arm
from router.decision import Candidate, Decision, Exclusion, NoArmError, Reason
from router.difficulty import DifficultyModel, Forecast
from router.filter import AUTO, exclude
from router.request import RequestView

POLICY_VERSION = "value-1"

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
    """Decides, purely: the same view and arms always get the same decision from the same policy."""

    model: DifficultyModel
    price_of_compute: float
    """λ, in probability of success per unit of money; 0 takes the likeliest arm at any price."""
    quality_floor: float = 0.0
    """The least probability of success to accept while some arm reaches it. A client may ask for more, not
    for less."""

    def decide(self, view: RequestView, arms: Sequence[Arm]) -> Decision:
        """The arm that answers `view`.

        Among the arms that `router.filter` leaves and the client can afford, the best value; of equal values
        the stronger tier's. If that falls short of the floor, the cheapest arm that reaches it, or the
        likeliest one.

        Raises:
            NoArmError: none is left.
        """
        candidates = self.consider(view, arms)
        excluded = {name: c.excluded for name, c in candidates.items() if c.excluded is not None}
        affordable = [arm for arm in arms if arm.name not in excluded]
        if not affordable:
            raise _refusal(view, arms, excluded)
        open_to = [arm for arm in arms if excluded.get(arm.name, Exclusion.MAX_COST) is Exclusion.MAX_COST]

        best = self._best(affordable, candidates)
        chosen = self._above_floor(best, affordable, candidates, self._floor(view))
        wished = self._above_floor(self._best(open_to, candidates), open_to, candidates, self._floor(view))
        reason = _client_reason(view) or _only_reason(excluded, num_arms=len(arms))
        if reason is None and chosen is not wished:
            reason = Reason.MAX_COST
        if reason is None:
            reason = Reason.BEST_VALUE if chosen is best else Reason.QUALITY_FLOOR
        candidate = candidates[chosen.name]
        return Decision(
            arm=chosen.name,
            tier=chosen.tier,
            reason=reason,
            success_probability=candidate.success_probability,
            expected_cost=candidate.expected_cost,
            candidates=tuple(candidates.values()),
            price_of_compute=self.price_of_compute,
            propensity=1.0,
            policy_version=POLICY_VERSION,
            artifact_version=self.model.version,
        )

    def consider(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Candidate]:
        """Every arm with its forecast and what stands against it, by name and in order."""
        excluded = exclude(view, arms)
        forecasts = self.model.forecast(view, arms)
        candidates = {}
        for arm in arms:
            cost = expected_cost(view, arm, forecasts[arm.name])
            against = excluded.get(arm.name)
            if against is None and view.max_cost is not None and cost > view.max_cost:
                against = Exclusion.MAX_COST
            candidates[arm.name] = Candidate(
                arm=arm.name,
                tier=arm.tier,
                success_probability=forecasts[arm.name].success_probability,
                expected_cost=cost,
                excluded=against,
            )
        return candidates

    def _floor(self, view: RequestView) -> float:
        return max(self.quality_floor, view.min_quality or 0.0)

    def _best(self, arms: Sequence[Arm], candidates: Mapping[str, Candidate]) -> Arm:
        return max(arms, key=lambda arm: (candidates[arm.name].value(self.price_of_compute), arm.strength))

    def _above_floor(
        self, best: Arm, arms: Sequence[Arm], candidates: Mapping[str, Candidate], floor: float
    ) -> Arm:
        def probability(arm: Arm) -> float:
            return candidates[arm.name].success_probability

        if probability(best) >= floor:
            return best
        reaching = [arm for arm in arms if probability(arm) >= floor]
        if reaching:
            return min(reaching, key=lambda arm: (candidates[arm.name].expected_cost, -arm.strength))
        return max(arms, key=lambda arm: (probability(arm), arm.strength))


def expected_cost(view: RequestView, arm: Arm, forecast: Forecast) -> float:
    """Money that `arm` is expected to take for `view`: each of its `n` answers no longer than `max_tokens`
    allows."""
    num_tokens = forecast.num_output_tokens
    if view.max_output_tokens is not None:
        num_tokens = min(num_tokens, view.max_output_tokens)
    return arm.price.cost(
        num_input_tokens=view.num_input_tokens, num_output_tokens=num_tokens * view.num_choices
    )


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
