"""A decision: which arm answers, why, and everything that is needed to replay it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from router.doubt import DoubtKind
from router.offer import Metric, Offer, Spend
from router.propensity import PolicyTerms


class Reason(StrEnum):
    """Why an arm was chosen. A closed list: it labels metrics and appears in `x-tierwise-reason`."""

    BEST_VALUE = "best_value"
    """Highest `p − λ·cost` of the arms considered."""
    ONLY_CAPABLE = "only_capable"
    """Every other arm lacks a capability that the request needs."""
    ONLY_AVAILABLE = "only_available"
    """Every other capable arm has no healthy replica."""
    CLIENT_MODEL = "client_model"
    """`model` named a tier, an arm or a concrete id."""
    CLIENT_ARM = "client_arm"
    """`x-tierwise-arm` named it."""
    CLIENT_SERVICE_TIER = "client_service_tier"
    """`service_tier` was `flex` (the cheapest tier) or `priority` (the strongest)."""
    QUALITY_FLOOR = "quality_floor"
    """The best value fell short of the quality asked for; the cheapest arm that reaches it, or the
    strongest."""
    MAX_COST = "max_cost"
    """The best value was dearer than the client allows."""
    SESSION_MEMORY = "session_memory"
    """The turn by itself would have gone lower; the session remembers a harder one (`router.session`)."""
    TOOL_LOOP_PIN = "tool_loop_pin"
    """It began the tool loop that the request goes on with."""
    OUT_OF_DISTRIBUTION = "out_of_distribution"
    """The model has not seen the like of the request; the strongest arm that is open to it (`router.doubt`)."""
    CONSERVATIVE = "conservative"
    """Forecasts are in doubt, so that compute counts for less; at its usual price another arm were the best value."""
    EXPLORATION = "exploration"
    """Drawn by lot, so that more becomes known of the arms that the value rule passes over."""
    ESCALATION = "escalation"
    """The first tokens of a weaker arm's answer were too doubtful (`router.escalation`); none of them was sent."""


class Exclusion(StrEnum):
    """Why an arm was not considered."""

    ENDPOINT = "endpoint"
    CONTEXT = "context"
    MODALITY = "modality"
    TOOLS = "tools"
    SCHEMA = "schema"
    LOGPROBS = "logprobs"
    PARAMETER = "parameter"
    """The engine would silently drop a parameter that the request sets; `NoArmError.param` names it."""
    EFFORT = "effort"
    CLIENT = "client"
    UNAVAILABLE = "unavailable"
    MAX_COST = "max_cost"
    PINNED = "pinned"
    """Another arm began the tool loop that the request goes on with."""
    DOUBT = "doubt"
    """The forecasts are not supported, and a stronger arm is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One arm in a decision."""

    arm: str
    tier: str
    success_probability: float
    """What the difficulty model says, in the light of recent outcomes."""
    weighed_probability: float
    """What was decided on: the same, or less where the session remembers a harder turn."""
    expected: Spend
    excluded: Exclusion | None = None
    raw_probability: float | None = None
    """What the model says by itself; None where recent outcomes change nothing."""

    @property
    def model_probability(self) -> float:
        """What the model says by itself: what its grades are compared with when it is recalibrated."""
        return self.success_probability if self.raw_probability is None else self.raw_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of `RoutingPolicy.decide`. Same view, arms, artifact, memory and λ give the same choice."""

    arm: str
    tier: str
    reason: Reason
    success_probability: float
    expected: Spend
    candidates: tuple[Candidate, ...]
    offer: Offer
    """What of the candidates was left to choose from, as the budget controller is told."""
    position: int
    """Where in the offer the chosen arm stands."""
    metric: Metric
    """What λ prices."""
    price_of_compute: float
    """λ as this request drew it, in probability of success per unit of the metric."""
    propensity: float
    """Probability with which this policy picks this arm for this view, over its own draws, in (0, 1]."""
    chances: tuple[float, ...]
    """The same of every arm of the offer, in its order."""
    terms: PolicyTerms
    """What the chances depend on beside the offer. Where no lot could decide, its exploration share is 0."""
    lot: float
    """The draw that explores, in [0, 1]: below the exploration share it says which arm."""
    policy_version: str
    artifact_version: str
    doubts: tuple[DoubtKind, ...] = ()
    """Why the router was conservative; empty where it was not."""

    @property
    def chosen(self) -> Candidate:
        """The arm that answers, as it was considered."""
        return next(candidate for candidate in self.candidates if candidate.arm == self.arm)


class NoArmError(Exception):
    """No arm can answer the request.

    `exclusions` says, for each arm, why; `param` names the request's parameter that stands against the arm
    that came nearest to answering.
    """

    def __init__(self, message: str, *, exclusions: dict[str, Exclusion], param: str | None = None) -> None:
        super().__init__(message)
        self.exclusions = exclusions
        self.param = param
