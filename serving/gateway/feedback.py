"""`POST /v1/feedback`: how good an answer was, from whoever can tell; joined to what had been decided.

A request is known by its `x-request-id`, to the API key that made it: from this process's memory, and from the ledger
where that is too short, where the process was started anew, or where another replica of the gateway answered. A grade
may be given again: of each source the last one counts, and of all sources the very last in the metrics. Grades of
shadow runs are counted and written down, and nothing is learned from them (`FeedbackRecord.is_outcome`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator
from sqlalchemy.engine import URL

from router.decision import Decision
from router.evidence import Grade
from serving.gateway.errors import ApiError, invalid
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.grades import Grades
from serving.gateway.json_request import read_object
from serving.gateway.recent import Recent
from serving.ledger.database import LedgerError, sqlite_path
from serving.ledger.query import decided_request, open_for_reading
from serving.ledger.records import FeedbackRecord
from serving.ledger.store import Ledger
from serving.telemetry.feedback_series import FeedbackSeries

MAX_REMEMBERED: Final = 20_000
"""Decisions, at some hundred bytes each."""
MAX_LOOKUPS: Final = 2
"""At once; ids that nobody knows must not keep the database busy."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Graded:
    """What is known of the request that is graded."""

    key: str | None
    arm: str | None
    """None where the request ended before one was chosen."""
    tier: str | None
    success_probability: float
    model_probability: float
    """Before recalibration."""
    propensity: float
    artifact_version: str


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    request_id: str = Field(min_length=1, max_length=128)
    success: StrictBool | None = None
    score: float | None = Field(None, ge=0, le=1, strict=True)
    source: Literal["client", "verifier", "judge", "shadow"] = "client"

    @model_validator(mode="after")
    def _is_graded_once(self) -> Self:
        if (self.success is None) == (self.score is None):
            raise ValueError("send either `success` (true or false) or `score` (from 0 to 1)")
        return self

    @property
    def grade(self) -> float:
        return self.score if self.score is not None else float(bool(self.success))


class Feedback:
    """Takes grades of the requests that were decided here, or that the ledger knows.

    Args:
        ledger: where grades are written to.
        look_up: finds a request that is not remembered; None where nobody knows it.
        evidence: is told of each.
        series: the metrics.
        wall_clock: Unix time.
    """

    def __init__(
        self,
        ledger: Ledger,
        look_up: Callable[[str], Awaitable[Graded | None]],
        evidence: EvidenceKeeper,
        series: FeedbackSeries,
        *,
        wall_clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._look_up = look_up
        self._evidence = evidence
        self._series = series
        self._wall_clock = wall_clock
        self._grades = Grades(series)
        self._decided: Recent[str, Graded] = Recent(MAX_REMEMBERED)

    def add_to(self, app: FastAPI, authenticate: Callable[[Request], str | None]) -> None:
        """Let `app` answer the URL.

        Args:
            authenticate: the name of the request's API key; raises `ApiError` where it needs one and has none.
        """

        @app.post("/v1/feedback")
        async def feedback(request: Request) -> JSONResponse:
            key = authenticate(request)
            record = await self.take(await read_object(request), key)
            told = {"request_id": record.request_id, "arm": record.arm, "score": record.score}
            return JSONResponse({"object": "feedback", **told, "source": record.source})

    def decided(self, request_id: str, key: str | None, decision: Decision) -> None:
        """A request was decided; where it is decided again, the later decision is the one that is graded."""
        graded = Graded(
            key,
            decision.arm,
            decision.tier,
            decision.success_probability,
            decision.chosen.model_probability,
            decision.propensity,
            decision.artifact_version,
        )
        self._decided.put(request_id, graded)

    async def take(self, members: Mapping[str, Any], key: str | None) -> FeedbackRecord:
        """Record the grade that is sent in `members` by the holder of this key.

        Raises:
            ApiError: 400 for what is no grade, 404 for a request that is not known to the key, 409 for one that
                ended before an arm was chosen, 503 where the ledger would have to be asked and cannot be.
        """
        body = _parsed(members)
        graded = self._decided.get(body.request_id) or await self._look_up(body.request_id)
        if graded is None or graded.key != key:  # alike, so that ids of others cannot be found out
            message = f"No request {body.request_id!r} is known to this key."
            raise ApiError(404, message, param="request_id", code="request_not_found")
        if graded.arm is None or graded.tier is None:
            message = (
                f"The request {body.request_id!r} ended before an arm was chosen: there is nothing to grade."
            )
            raise ApiError(409, message, param="request_id", code="not_answered")
        return self.grade(body.request_id, graded, source=body.source, score=body.grade)

    def grade(self, request_id: str, graded: Graded, *, source: str, score: float) -> FeedbackRecord:
        """Record a grade of a request for which an arm was chosen."""
        assert graded.arm is not None, "there is an answer to grade"
        assert graded.tier is not None, "an arm has a tier"
        record = FeedbackRecord(
            request_id=request_id,
            recorded_at=self._wall_clock(),
            key=graded.key,
            source=source,
            score=score,
            arm=graded.arm,
            tier=graded.tier,
            success_probability=graded.success_probability,
            propensity=graded.propensity,
            artifact_version=graded.artifact_version,
        )
        self._ledger.record_feedback(record)
        self._series.taken(record.arm, record.source)
        if record.is_outcome:
            self._learn(record, graded.model_probability)
        return record

    def _learn(self, record: FeedbackRecord, model_probability: float) -> None:
        arm, probability, score = record.arm, record.success_probability, record.score
        heard = Grade(arm=arm, model_probability=model_probability, probability=probability, success=score)
        self._evidence.graded(record.request_id, record.artifact_version, heard)
        self._grades.take(arm, record.request_id, probability=probability, score=score)


def ledger_lookup(url: URL) -> Callable[[str], Awaitable[Graded | None]]:
    """How to find a request in the ledger at `url`."""
    permits = asyncio.Semaphore(MAX_LOOKUPS)

    def find(request_id: str) -> Graded | None:
        path = sqlite_path(url)
        if path is not None and not path.exists():
            return None
        with open_for_reading(url) as connection:
            row = decided_request(connection, request_id)
        return None if row is None else _graded(row)

    async def look_up(request_id: str) -> Graded | None:
        async with permits:
            try:
                return await asyncio.to_thread(find, request_id)
            except LedgerError as error:
                _log.error("a request to be graded cannot be looked up: %s", error)
                message = "The ledger cannot be asked for this request now."
                raise ApiError(503, message, code="ledger_unavailable", retry_after_s=5.0) from None

    return look_up


def _graded(row: Mapping[str, Any]) -> Graded:
    """A row of the ledger; where it does not say what the model itself said, nothing had bent it."""
    told = orjson.loads(row["candidates"])
    raw = next((each.get("raw") for each in told if each["arm"] == row["arm"]), None)
    return Graded(
        key=row["key"],
        arm=row["arm"],
        tier=row["tier"],
        success_probability=row["success_probability"],
        model_probability=row["success_probability"] if raw is None else raw,
        propensity=row["propensity"],
        artifact_version=row["artifact_version"],
    )


def _parsed(members: Mapping[str, Any]) -> _Body:
    try:
        return _Body.model_validate(members)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        param = str(fault["loc"][0])[:80] if fault["loc"] else None
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown member; known are {', '.join(_Body.model_fields)}"
        raise invalid(f"{param or 'feedback'}: {message}.", param) from None
