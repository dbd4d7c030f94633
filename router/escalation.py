"""Escalation: whether an answer that has begun is worth giving up for a stronger arm's. Pure; held back by the gateway.

Of the first tokens one number is taken, the *statistic*: small where the model wavers. With it the forecasts of two
arms are told anew, each by a logistic on (logit p, statistic): that of the arm which has begun, and that of the arm
to which the request could go, since what makes one waver is hard for the other too. Escalating gains the difference of
the two and costs what the stronger arm takes; the first arm's tokens are spent either way. The rule is the policy's:
go up where gain > λ·price. Cascades that decide so are in Chen et al. 2023 (arXiv 2305.05176) and Gupta et al. 2024
(arXiv 2404.10136), who find uncertainty of tokens to be the better signal than the probability of the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any, Final

from router.decision import Candidate, Decision, Reason
from router.first_tokens import FirstTokens
from router.offer import Metric
from router.request import RequestView

VERSION: Final = 1
"""Of a model's members."""
EDGE: Final = 1e-3
"""Probabilities are taken no nearer to 0 and 1 than this."""
ENDPOINTS: Final = frozenset({"chat", "responses"})
"""Where answers begin as those did that the model was fitted on."""
LEFT_TO_ROUTER: Final = frozenset({Reason.BEST_VALUE, Reason.QUALITY_FLOOR, Reason.SESSION_MEMORY})
"""Reasons of decisions that a second look may change. A client's choice, a pin and a lot stand."""


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


STATISTICS: Final[Mapping[str, Callable[[FirstTokens], float]]] = {
    "mean_margin": lambda tokens: _mean(tokens.margins),
    "min_margin": lambda tokens: min(tokens.margins),
    "mean_logprob": lambda tokens: _mean(tokens.logprobs),
}
"""What is taken of the first tokens; more is surer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A forecast told anew: log odds = intercept + slope · logit p + weight · statistic."""

    intercept: float
    slope: float
    weight: float

    def __call__(self, probability: float, statistic: float) -> float:
        """The probability of success, now that the statistic is known."""
        p = min(max(probability, EDGE), 1 - EDGE)
        score = self.intercept + self.slope * log(p / (1 - p)) + self.weight * statistic
        return 1 / (1 + exp(-min(max(score, -50.0), 50.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairModel:
    """What the first tokens of one arm say of it and of another."""

    first: str
    """The arm that has begun."""
    next: str
    """The arm to which the request could go."""
    statistic: str
    """Of `STATISTICS`."""
    num_tokens: int
    """Of how many tokens; of a shorter answer, of all."""
    lowest: float
    """About the least that the statistic is: where even that would not move a request, nothing is held back."""
    revise_first: Revision
    revise_next: Revision

    def gain(self, p_first: float, p_next: float, statistic: float) -> float:
        """Probability of success that going up adds."""
        return self.revise_next(p_next, statistic) - self.revise_first(p_first, statistic)


@dataclass(frozen=True, slots=True)
class EscalationModel:
    """The pairs of arms between which answers may be escalated."""

    pairs: tuple[PairModel, ...]
    """For each pair of arms one or more, which look at more or fewer tokens."""

    def within(self, max_tokens: int) -> EscalationModel:
        """Of each pair of arms, the model that looks at most tokens, if at no more than these."""
        fitting = sorted(
            (pair for pair in self.pairs if pair.num_tokens <= max_tokens), key=lambda p: p.num_tokens
        )
        return EscalationModel(tuple({(pair.first, pair.next): pair for pair in fitting}.values()))

    def as_members(self) -> dict[str, Any]:
        """The model as plain members."""
        return {"version": VERSION, "pairs": [_pair_members(pair) for pair in self.pairs]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A request whose first arm is on trial."""

    pair: PairModel
    first: Candidate
    next: Candidate
    price: float
    """λ · price of the next arm: what going up has to gain, and more."""

    def revised(self, tokens: FirstTokens) -> tuple[float, float]:
        """The two arms' probabilities of success, now that the first's tokens are known."""
        statistic = STATISTICS[self.pair.statistic](tokens.first(self.pair.num_tokens))
        return (
            self.pair.revise_first(self.first.success_probability, statistic),
            self.pair.revise_next(self.next.success_probability, statistic),
        )

    def is_worth_it(self, tokens: FirstTokens) -> bool:
        """Whether to go up; of no tokens nothing is known, so not."""
        if not len(tokens):
            return False
        first, following = self.revised(tokens)
        return following - first > self.price


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The doubtful band."""

    low: float
    """Below, the policy has said that not even the stronger arm is worth it; in probability of success."""
    high: float
    """Above, the first arm is as good as certain."""


def plan_hold(view: RequestView, decision: Decision, model: EscalationModel, band: Band) -> Hold | None:
    """Whom to put on trial, against whom; None for a request that goes its way at once.

    Of several arms that it could go up to, the one that gains most at the statistic's lowest.
    """
    if not model.pairs or decision.reason not in LEFT_TO_ROUTER or not _is_plain(view):
        return None
    if not band.low <= decision.success_probability <= band.high:
        return None
    open_to = {candidate.arm: candidate for candidate in decision.candidates if candidate.excluded is None}
    holds = [
        Hold(pair=pair, first=open_to[pair.first], next=following, price=_price(decision, following))
        for pair in model.pairs
        if pair.first == decision.arm and (following := open_to.get(pair.next)) is not None
    ]
    gains = {
        hold.pair.gain(hold.first.success_probability, hold.next.success_probability, hold.pair.lowest)
        - hold.price: hold
        for hold in holds
        if _is_affordable(view, hold)
    }
    best = max(gains, default=0.0)
    return gains[best] if best > 0 else None


def _is_plain(view: RequestView) -> bool:
    """One answer in free text, to a request without tools."""
    is_tool_use = bool(view.num_tools) or view.is_tool_loop
    return view.endpoint in ENDPOINTS and view.num_choices == 1 and not (is_tool_use or view.needs_schema)


def _price(decision: Decision, following: Candidate) -> float:
    return decision.price_of_compute * Metric(decision.metric).price(following.expected)


def _is_affordable(view: RequestView, hold: Hold) -> bool:
    """Whether both attempts together stay below the client's greatest cost."""
    return view.max_cost is None or hold.first.expected.cost + hold.next.expected.cost <= view.max_cost


def model_from_members(members: Mapping[str, Any]) -> EscalationModel:
    """The model that `EscalationModel.as_members` made these of.

    Raises:
        ValueError: they are no such model, or one of another version.
    """
    if members.get("version") != VERSION:
        raise ValueError(f"an escalation model of version {members.get('version')!r}; known is {VERSION}")
    try:
        return EscalationModel(tuple(_pair_of(pair) for pair in members["pairs"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no escalation model: {error}") from None


def _pair_members(pair: PairModel) -> dict[str, Any]:
    def revision(told: Revision) -> dict[str, float]:
        return {"intercept": told.intercept, "slope": told.slope, "weight": told.weight}

    return {
        "first": pair.first,
        "next": pair.next,
        "statistic": pair.statistic,
        "num_tokens": pair.num_tokens,
        "lowest": pair.lowest,
        "revise_first": revision(pair.revise_first),
        "revise_next": revision(pair.revise_next),
    }


def _pair_of(members: Mapping[str, Any]) -> PairModel:
    if members["statistic"] not in STATISTICS:
        raise ValueError(f"no statistic {members['statistic']!r}; there are {', '.join(STATISTICS)}")
    revisions = {name: Revision(**members[name]) for name in ("revise_first", "revise_next")}
    return PairModel(**{**members, **revisions})
