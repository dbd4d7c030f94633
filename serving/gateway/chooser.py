"""The choice of an arm at this moment: the router's decision on the fleet as it is, without what has failed already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from router.decision import Decision, Exclusion, NoArmError
from router.filter import AUTO, UnknownModelError, resolve_model
from router.request import RequestView
from serving.gateway.account import MAX_MODEL_CHARS
from serving.gateway.attempt import AttemptFailedError
from serving.gateway.errors import ApiError
from serving.gateway.fleet import Fleet
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.parameters import PITFALLS
from serving.gateway.steering import Course
from serving.settings import GatewaySettings
from serving.upstream.retry import RetryBudget

MAX_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Failures:
    """What one request has met so far. A request is asked no second time of a replica that failed it."""

    replicas: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    """Those whose connection broke: where the engine is ours, it is being started again."""
    num_attempts: int = 0
    last: AttemptFailedError | None = None

    def after(self, failure: AttemptFailedError) -> Failures:
        """These and one more."""
        gone = {failure.replica}
        lost = self.lost | gone if failure.is_connection_lost else self.lost
        return Failures(self.replicas | gone, lost, self.num_attempts + 1, failure)


class Chooser:
    """Decides where a request goes.

    Args:
        settings: how long a request may wait for an engine that is being started again, and what clients may see.
        retry_budget: pays for every attempt after a replica may have worked on an earlier one.
        monotonic: seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        settings: GatewaySettings,
        retry_budget: RetryBudget,
        monotonic: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._retry_budget = retry_budget
        self._monotonic = monotonic

    def resolve(self, view: RequestView) -> RequestView:
        """`view` with its `model` resolved to `auto`, an arm or a tier.

        Raises:
            ApiError: 404 for a model that is not served here, 400 for an arm that there is not.
        """
        arms = self._fleet.arms_by_name
        if view.wanted_arm is not None and view.wanted_arm not in arms:
            told = f"There is no arm {view.wanted_arm[:80]!r}; the arms are {', '.join(arms)}."
            raise ApiError(400, told, param="x-tierwise-arm")
        if view.model == AUTO:
            return view
        try:
            model = resolve_model(view.model[:MAX_MODEL_CHARS], arms.values(), self._fleet.model_ids)
        except UnknownModelError as error:
            raise ApiError(404, f"{error}.", param="model", code="model_not_found") from None
        return view if model == view.model else replace(view, model=model)

    async def decide(self, course: Course, failures: Failures) -> Decision:
        """The arm for a first attempt, or for one more where that is allowed and there is somebody to ask.

        Where every arm that could answer is down and one of them is being started again, it is waited for.

        Raises:
            ApiError: no arm can or may; after an attempt, that attempt's error.
        """
        last = failures.last
        if last is not None and (not last.is_retryable or failures.num_attempts >= MAX_ATTEMPTS):
            raise last.error from last
        is_paid = last is None or not last.was_dispatched
        give_up = self._monotonic() + self._settings.queue_timeout_s
        await course.assess(tuple(self._fleet.arms_by_name.values()))
        while True:
            decision = self._decide_now(course, failures)
            if not is_paid and not self._retry_budget.try_spend(self._monotonic()):
                raise _none_left(failures)
            is_paid = True
            if decision is not None:
                return decision
            left = give_up - self._monotonic()
            if left <= 0:
                raise _none_left(failures)
            await self._fleet.wait_for_change(left)

    def target(self, view: RequestView, decision: Decision, *, wants_first_tokens: bool = False) -> Target:
        """What the request's adapter has to know of where it goes."""
        engine = self._fleet[decision.tier].engine
        assert engine is not None, "a tier that was never up is not available"
        return Target(
            arm=self._fleet.arms_by_name[decision.arm],
            engine=engine,
            service_tier=None if view.service_tier is None else self._service_tier(decision.tier),
            expose_vendor_fields=self._settings.expose_vendor_fields,
            wants_first_tokens=wants_first_tokens,
        )

    def _decide_now(self, course: Course, failures: Failures) -> Decision | None:
        """The decision; None where waiting for an engine may help."""
        try:
            return course.decide(self._fleet.arms(failures.replicas))
        except NoArmError as error:
            down = [arm for arm, why in error.exclusions.items() if why is Exclusion.UNAVAILABLE]
            if not down:
                raise _refused(error) from None
        if self._fleet.is_restarting(down, failures.lost):
            return None
        try:
            return course.decide(self._fleet.arms(failures.replicas, even_if_sick=True))
        except NoArmError:
            raise _none_left(failures) from None

    def _service_tier(self, tier: str) -> str:
        """OpenAI's name for a tier."""
        strengths = {arm.tier: arm.strength for arm in self._fleet.arms_by_name.values()}
        if len(strengths) == 1:
            return "default"
        if strengths[tier] == min(strengths.values()):
            return "flex"
        return "priority" if strengths[tier] == max(strengths.values()) else "default"


def _none_left(failures: Failures) -> ApiError:
    if failures.last is not None:
        return failures.last.error
    return ApiError(503, "No tier that can answer this request is up.", code="tier_unavailable")


def _refused(error: NoArmError) -> ApiError:
    """400: no arm can do what the request asks; the message says what each one lacks."""
    if error.param in PITFALLS:
        return ApiError(400, PITFALLS[error.param], param=error.param, code="unsupported_value")
    is_overflow = Exclusion.CONTEXT in error.exclusions.values()
    code = "context_length_exceeded" if is_overflow else "unsupported_parameter"
    return ApiError(400, str(error), param=error.param, code=code)
