"""What an operator asks of a running gateway: `GET` and `PUT /admin/budget`, `GET /admin/evidence`.

Changing anything takes an admin key (`tierwise keys create NAME --admin`), on loopback too: whoever can reach the port
is not the operator yet. Without such a key nothing can be changed. Looking is open where the API itself is, and takes
an admin key where the API asks for keys. A change is validated, written to the audit log, and only then put in force
and saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from router.budget import BudgetState
from router.budget_config import Mode
from serving.budget_settings import BudgetSettings
from serving.gateway.audit import AuditLog
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.errors import ApiError, invalid, unauthorized
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.json_request import read_object
from serving.gateway.keys import KeyStore, presented_key

BUDGET_PATH: Final = "/admin/budget"
EVIDENCE_PATH: Final = "/admin/evidence"


class Administration:
    """The budget as an operator sees and changes it, and the evidence to see.

    Args:
        budget: what is looked at and changed.
        evidence: what is looked at.
        keys: the key store, whether or not the API asks for keys.
        asks_for_keys: whether it does.
        audit: where changes are written down.
        wall_clock: Unix time.
    """

    def __init__(
        self,
        budget: BudgetKeeper,
        evidence: EvidenceKeeper,
        keys: KeyStore,
        *,
        asks_for_keys: bool,
        audit: AuditLog,
        wall_clock: Callable[[], float],
    ) -> None:
        self._budget = budget
        self._evidence = evidence
        self._keys = keys
        self._asks_for_keys = asks_for_keys
        self._audit = audit
        self._wall_clock = wall_clock
        self._changing = asyncio.Lock()

    def add_to(self, app: FastAPI) -> None:
        """Let `app` answer the URLs."""

        @app.get(BUDGET_PATH)
        async def show(request: Request) -> JSONResponse:
            if self._asks_for_keys:
                self.administrator(request)
            return JSONResponse(self.shown())

        @app.get(EVIDENCE_PATH)
        async def show_evidence(request: Request) -> JSONResponse:
            if self._asks_for_keys:
                self.administrator(request)
            return JSONResponse(self._evidence.shown())

        @app.put(BUDGET_PATH)
        async def change(request: Request) -> JSONResponse:
            by = self.administrator(request)
            await self.change(await read_object(request), by=by)
            return JSONResponse(self.shown())

    def shown(self) -> dict[str, Any]:
        """The terms in force, λ, and what the controller says."""
        return {
            "object": "budget",
            "terms": self._budget.terms.model_dump(mode="json"),
            "price_of_compute": self._budget.pricing.price_of_compute,
            "state": _shown(self._budget.state),
        }

    async def change(self, members: Mapping[str, Any], *, by: str) -> None:
        """Put the terms in force with these members of them changed.

        Raises:
            ApiError: 400 where the terms would make no sense, 500 where the audit log cannot be written.
        """
        async with self._changing:  # so that the log tells changes in the order in which they were made
            before = self._budget.terms
            terms = changed(before, members)
            entry = {
                "at": datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="milliseconds"),
                "by": by,
                "what": "budget",
                "from": before.model_dump(mode="json"),
                "to": terms.model_dump(mode="json"),
            }
            try:
                await asyncio.to_thread(self._audit.append, entry)
            except OSError as error:
                raise ApiError(
                    500,
                    f"Nothing was changed: the audit log cannot be written: {error.strerror}.",
                    code="audit_failed",
                ) from error
            self._budget.change(terms)
            await self._budget.save()

    def administrator(self, request: Request) -> str:
        """The name of the admin key that the request carries.

        Raises:
            ApiError: 401 or 403, where it carries none.
        """
        presented = presented_key(request.headers)
        record = self._keys.verify(presented)
        if record is not None and record.is_admin:
            return record.name
        if not self._keys.has_admin:
            message = "Nobody may do this yet: make an admin key with `tierwise keys create NAME --admin`."
            raise ApiError(403, message, code="no_admin_key")
        if record is not None:
            raise ApiError(403, "This API key is none that administers the gateway.", code="not_an_admin_key")
        raise unauthorized("This takes an admin key: send `Authorization: Bearer <key>`.")


def changed(terms: BudgetSettings, members: Mapping[str, Any]) -> BudgetSettings:
    """`terms` with these members in the place of its own. With another metric, numbers in the old one's unit go.

    Raises:
        ApiError: 400, naming the member at fault.
    """
    if not members:
        known = ", ".join(BudgetSettings.model_fields)
        raise invalid(f"Nothing to change: send at least one of {known}.", None, "missing_required_parameter")
    kept = terms.model_dump()
    if members.get("metric", terms.metric) != terms.metric:
        if terms.target is not None and "target" not in members:
            raise invalid(
                "Another metric needs a `target` in its own unit.", "target", "missing_required_parameter"
            )
        kept["price_of_compute"] = None
    try:
        made = BudgetSettings.model_validate({**kept, **members})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        param = str(fault["loc"][0])[:80] if fault["loc"] else None
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown member; known are {', '.join(BudgetSettings.model_fields)}"
        raise invalid(f"{param or 'the budget'}: {message}.", param) from None
    if "price_of_compute" in members and made.target is not None and made.mode in {Mode.AUTO, Mode.FROZEN}:
        message = f"λ cannot be set in `{made.mode.value}`: set `mode` to `manual` with it."
        raise invalid(message, "price_of_compute")
    return made


def _shown(state: BudgetState | None) -> dict[str, Any] | None:
    """Without the moment, which is told by a clock that is nobody else's."""
    return None if state is None else {name: value for name, value in asdict(state).items() if name != "at"}
