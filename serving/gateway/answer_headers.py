"""The headers of our answers: which request, who answered and why."""

from __future__ import annotations

from typing import Final

from router.decision import Decision, Reason

Header = tuple[bytes, bytes]

STREAM: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


def answer_headers(
    request_id: str, decision: Decision | None, cost: float | None, *, spent: float = 0.0
) -> list[Header]:
    """What every answer carries, errors included.

    Args:
        request_id: of the request.
        decision: None where it ended before one was made.
        cost: of what was used; None for a stream, whose usage is not known yet: the expected cost is told.
        spent: on earlier attempts, which is told with it.
    """
    headers = [(b"x-request-id", request_id.encode())]
    if decision is None:
        return headers
    if decision.doubts:
        kinds = ",".join(kind.value for kind in decision.doubts)
        headers.append((b"x-tierwise-conservative", kinds.encode()))
    shown, basis = (decision.expected.cost, b"expected") if cost is None else (cost, b"usage")
    return [
        *headers,
        (b"x-tierwise-tier", decision.tier.encode()),
        (b"x-tierwise-arm", decision.arm.encode()),
        (b"x-tierwise-reason", decision.reason.value.encode()),
        (b"x-tierwise-success-probability", b"%.4f" % decision.success_probability),
        (b"x-tierwise-escalated", b"true" if decision.reason is Reason.ESCALATION else b"false"),
        (b"x-tierwise-cost", b"%.9f" % (spent + shown)),
        (b"x-tierwise-cost-basis", basis),
    ]
