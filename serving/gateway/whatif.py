"""`GET /admin/whatif`: what another target would have cost and lost, asked of the ledger while the gateway runs.

    GET /admin/whatif?target=0.1,0.2,0.3&since=7d

The answer is that of `tierwise route whatif --json`. One is worked out at a time, in a thread, over so many requests at
most; whoever comes meanwhile is told to come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.engine import URL

from router.offer import Metric
from serving.gateway.errors import ApiError, invalid
from serving.ledger.database import LedgerError
from serving.ledger.query import open_for_reading
from serving.ledger.recorded import SCHEMA
from serving.ledger.span import moment
from serving.ledger.whatif import Answer, NothingDecidedError, Question, answer

WHATIF_PATH: Final = "/admin/whatif"
MAX_DECISIONS: Final = 10_000
"""Requests that are looked at; of more, a sample. The thread takes its share of the gateway's processor."""
RETRY_AFTER_S: Final = 1.0
_PARAMETERS: Final = ("target", "price", "metric", "since", "exploration_share")

_log = logging.getLogger(__name__)


class Hindsights:
    """Answers what would have been.

    Args:
        url: of the ledger.
        wall_clock: Unix time.
    """

    def __init__(self, url: URL, *, wall_clock: Callable[[], float]) -> None:
        self._url = url
        self._wall_clock = wall_clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tierwise-whatif")
        self._running: Future[Answer] | None = None

    def add_to(self, app: FastAPI, administrator: Callable[[Request], str]) -> None:
        """Let `app` answer the URL.

        Args:
            administrator: the name of the request's admin key; raises `ApiError` where it has none.
        """

        @app.get(WHATIF_PATH)
        async def whatif(request: Request) -> JSONResponse:
            administrator(request)
            given = {name: ",".join(request.query_params.getlist(name)) for name in request.query_params}
            return JSONResponse(await self.answer(question(given, now=self._wall_clock())))

    async def answer(self, asked: Question) -> Answer:
        """What would have been.

        Raises:
            ApiError: 429 while another is worked out, 404 where there is no decision to look at, 503 where the
                ledger cannot be read.
        """
        if self._running is not None and not self._running.done():
            message = "Another what-if is being worked out; ask again when it is done."
            raise ApiError(429, message, code="what_if_busy", retry_after_s=RETRY_AFTER_S)
        self._running = self._thread.submit(self._answer, asked)
        try:
            # It goes on where the request is cancelled, and keeps its place until it ends.
            return await asyncio.wrap_future(self._running)
        except NothingDecidedError as error:
            raise ApiError(404, str(error), code="nothing_decided") from None
        except LedgerError as error:
            _log.error("a what-if cannot read the ledger: %s", error)
            message = "The ledger cannot be read now."
            raise ApiError(503, message, code="ledger_unavailable", retry_after_s=5.0) from None

    def _answer(self, asked: Question) -> Answer:
        with open_for_reading(self._url, at_least=SCHEMA) as connection:
            return answer(connection, asked, max_decisions=MAX_DECISIONS)


def question(given: Mapping[str, str], *, now: float) -> Question:
    """What the parameters of a URL ask; several targets and prices are divided by commas.

    Raises:
        ApiError: 400, naming the parameter at fault.
    """
    for name in given:
        if name not in _PARAMETERS:
            raise invalid(f"{name[:80]}: unknown parameter; known are {', '.join(_PARAMETERS)}.", name[:80])
    readers: Mapping[str, Callable[[str], Any]] = {
        "target": _numbers,
        "price": _numbers,
        "metric": Metric,
        "since": lambda text: moment(text, now=now),
        "exploration_share": _share,
    }
    read: dict[str, Any] = {}
    for name, text in given.items():
        try:
            read[name] = readers[name](text)
        except ValueError as error:
            raise invalid(f"{name}: {error}.", name) from None
    members = {"targets": read.pop("target", ()), "prices": read.pop("price", ()), **read}
    try:
        return Question(**members)
    except ValueError as error:
        raise invalid(
            f"{error}.", "price" if "target" not in given and "price" in given else "target"
        ) from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no list of numbers; write 0.2 or 0.1,0.2,0.3") from None


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < 1:
        raise ValueError("a share is from 0 to below 1")
    return share
