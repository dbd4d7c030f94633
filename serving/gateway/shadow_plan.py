"""What a drawn request's run is to be, once the client has been answered: which arm is asked, and which one graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router.arms import Arm
from router.decision import Decision
from router.request import RequestView
from serving.gateway import shadow_judge
from serving.gateway.account import Account
from serving.gateway.shadow_request import Drawn
from serving.ledger.records import AttemptRecord, Outcome


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Served:
    """An answer of text that a client has got. It has no `repr`, since it holds what was said."""

    decision: Decision
    attempt: AttemptRecord
    text: str


def served(drawn: Drawn, account: Account) -> Served | None:
    """What the client got; None where that is no whole answer of text."""
    if account.status != 200 or account.decision is None or not account.attempts:
        return None
    last, text = account.attempts[-1], drawn.overheard.text
    if last.outcome is not Outcome.SUCCESS or text is None:
        return None
    return Served(decision=account.decision, attempt=last, text=text)


def weaker_of(first: str, second: str, arms: Sequence[Arm]) -> str:
    """The weaker of two arms by name, of `arms` in the order of the settings; of equals the one named later."""
    pair = [arm for arm in reversed(arms) if arm.name in (first, second)]
    return min(pair, key=lambda arm: (arm.strength, arm.effort)).name


def propensity(share: float, graded: str, chosen: str, others: Sequence[Arm], arms: Sequence[Arm]) -> float:
    """The chance of a run that grades the arm `graded`, once `chosen` has answered.

    Args:
        share: of requests on which the lot falls.
        others: the arms among which the lot chooses, all alike.
        arms: all there are.
    """
    graders = [arm for arm in others if weaker_of(chosen, arm.name, arms) == graded]
    if graded != chosen:
        graders = [arm for arm in graders if arm.name == graded]
    return share * len(graders) / len(others)


def expected_cost(view: RequestView, answer: Served, shadow: Arm, judge: Arm | None) -> float:
    """Money for a run: the dearer of the forecast and of what the client's answer took, at this arm's price."""
    usage = answer.attempt.usage
    alike = shadow.price.cost(
        num_input_tokens=usage.prompt_tokens or 0, num_output_tokens=usage.completion_tokens or 0
    )
    forecasts = [c.expected.cost for c in answer.decision.candidates if c.arm == shadow.name]
    verdicts = 0.0 if judge is None else shadow_judge.expected_cost(view, len(answer.text), judge)
    return max([alike, *forecasts]) + verdicts
