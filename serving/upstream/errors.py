"""What can go wrong between us and a replica, named by the boundary that was crossed.

Messages are for clients and operators alike: they hold no URL, no key and no text of a request. The gateway turns
`code` into a status and an error body in one place.
"""

from __future__ import annotations

from typing import ClassVar

from serving.ledger.records import Outcome


class UpstreamError(Exception):
    """An attempt failed. Answers with a status, 4xx and 5xx included, are answers and not errors."""

    code: ClassVar[str] = "upstream_error"
    """OpenAI's `error.code`."""
    is_retryable: ClassVar[bool] = False
    """Whether another replica may be asked, as long as no byte of this attempt's answer reached the client."""
    outcome: ClassVar[Outcome] = Outcome.FAILURE
    """How the ledger books the attempt."""
    is_replica_fault: ClassVar[bool] = True
    """Whether the replica's breaker should hear of it."""

    def __init__(self, message: str, *, was_dispatched: bool) -> None:
        super().__init__(message)
        self.was_dispatched = was_dispatched
        """Whether the replica may have begun to work on the request, and somebody may have to pay for it."""


class ConnectError(UpstreamError):
    """No connection came about, so nothing was sent."""

    code = "upstream_unreachable"
    is_retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(message, was_dispatched=False)


class ConnectionLost(UpstreamError):  # noqa: N818 - the boundary's name says more than a suffix
    """The connection ended before the answer was whole. Retryable: with the connection the replica's work ended too."""

    code = "upstream_connection_lost"
    is_retryable = True

    def __init__(self, message: str, *, was_dispatched: bool = True, had_headers: bool = False) -> None:
        super().__init__(message, was_dispatched=was_dispatched)
        self.had_headers = had_headers
        """Whether the status line and headers had come."""


class ProtocolError(UpstreamError):
    """What came is not HTTP, not the promised encoding, or larger than allowed."""

    code = "upstream_protocol_error"
    is_retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(message, was_dispatched=True)


class FirstTokenTimeout(UpstreamError):  # noqa: N818
    """The body did not begin in time. Not retryable: the replica was at work, and the next would begin from nothing."""

    code = "upstream_first_token_timeout"

    def __init__(self, message: str = "the model did not begin to answer in time") -> None:
        super().__init__(message, was_dispatched=True)


class IdleTimeout(UpstreamError):  # noqa: N818
    """A body that had begun stopped coming."""

    code = "upstream_idle_timeout"

    def __init__(self, message: str = "the model stopped answering") -> None:
        super().__init__(message, was_dispatched=True)


class TotalTimeout(UpstreamError):  # noqa: N818
    """The request's whole time is over.

    Not the replica's fault: a long answer, a long queue or a slow client gets here with every replica in health, and
    one that hangs meets another deadline first.
    """

    code = "upstream_total_timeout"
    is_replica_fault = False

    def __init__(self, message: str = "the request took too long", *, was_dispatched: bool = True) -> None:
        super().__init__(message, was_dispatched=was_dispatched)


class Overloaded(UpstreamError):  # noqa: N818
    """No replica had room: the queue is full, or the wait in it was too long."""

    code = "overloaded"
    outcome = Outcome.OVERLOADED
    is_replica_fault = False

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message, was_dispatched=False)
        self.retry_after_s = retry_after_s
        """When room is to be expected, in seconds from now."""


class NoReplica(UpstreamError):  # noqa: N818
    """The pool has no replica, or none that was not excluded."""

    code = "no_replica"
    is_replica_fault = False

    def __init__(self, message: str) -> None:
        super().__init__(message, was_dispatched=False)
