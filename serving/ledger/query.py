"""The ledger read back: opened without changing it, and the latest requests. Sums stand in `summary`.

Written in the SQL that SQLite and PostgreSQL share, so that only results leave the database. Tokens and costs are
those of all attempts of a request, since all are paid for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, FromClause, Subquery, case, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from serving.ledger.database import LedgerError, driver_message, open_engine, sqlite_path
from serving.ledger.migration import OLDEST_SCHEMA
from serving.ledger.records import Outcome
from serving.ledger.tables import SCHEMA_VERSION, attempts, decisions, meta

_TAIL_COLUMNS: Final = (
    *("id", "request_id", "created_at", "endpoint", "key", "model", "arm", "tier", "reason"),
    *("success_probability", "status", "error_code", "num_attempts", "total_s", "cost"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRequest:
    """One request, as `tail` shows it."""

    id: int
    """Of its row; grows with each row written."""
    request_id: str
    created_at: float
    endpoint: str
    key: str | None
    model: str
    arm: str | None
    tier: str | None
    reason: str | None
    success_probability: float | None
    status: int
    error_code: str | None
    num_attempts: int
    ttft_s: float | None
    """None unless it was a stream that reached its first token."""
    total_s: float
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float


@contextmanager
def open_for_reading(url: URL, *, at_least: int = OLDEST_SCHEMA) -> Iterator[Connection]:
    """A connection to the ledger at `url`, which is neither made nor changed by it.

    Args:
        url: of the database.
        at_least: the schema that holds what is to be read. A gateway brings an earlier one up to date.

    Raises:
        LedgerError: there is no ledger there, it cannot be read, or it is of another version.
    """
    name = url.render_as_string(hide_password=True)
    path = sqlite_path(url)
    if path is not None and not path.is_file():
        raise LedgerError(
            f"no ledger at {path}; a gateway makes one with its first request (`tierwise up`). "
            "Name another with --home or --url"
        )
    engine = open_engine(url, ("query_only = ON",))
    try:
        with engine.connect() as connection:
            _check_schema(connection, name, at_least)
            yield connection
    except SQLAlchemyError as error:
        raise LedgerError(f"{name} cannot be read: {driver_message(error)}") from error
    finally:
        engine.dispose()


def tail(connection: Connection, num_requests: int, *, after_id: int = 0) -> list[LedgerRequest]:
    """The last `num_requests` requests written after row `after_id`, oldest first.

    With several gateways on PostgreSQL, the rows of a batch that commits late may come before rows seen already.
    """
    newest = decisions.c.id.desc()
    columns = [decisions.c[name] for name in (*_TAIL_COLUMNS, "is_streaming")]
    latest = select(*columns).where(decisions.c.id > after_id).order_by(newest).limit(num_requests).subquery()
    used = attempts_used(attempts.c.request_id.in_(select(latest.c.request_id)))
    query = (
        select(
            *(latest.c[name] for name in _TAIL_COLUMNS),
            ttft_s(latest, used),
            used.c.prompt_tokens,
            used.c.completion_tokens,
        )
        .outerjoin_from(latest, used, latest.c.request_id == used.c.request_id)
        .order_by(latest.c.id)
    )
    return [_request(dict(row)) for row in connection.execute(query).mappings()]


def decided_request(connection: Connection, request_id: str) -> dict[str, Any] | None:
    """Who made a request and what was decided about it; of several of one id the latest, None where there is none."""
    columns = ("key", "arm", "tier", "success_probability", "propensity", "artifact_version", "candidates")
    query = (
        select(*(decisions.c[name] for name in columns))
        .where(decisions.c.request_id == request_id)
        .order_by(decisions.c.id.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def attempts_used(condition: ColumnElement[bool]) -> Subquery:
    """For each request id among the attempts that meet `condition`: what they used, and how they ended."""
    counts = [
        func.sum(case((attempts.c.outcome == outcome.value, 1), else_=0)).label(f"num_{outcome.value}")
        for outcome in Outcome
    ]
    return (
        select(
            attempts.c.request_id,
            func.sum(attempts.c.prompt_tokens).label("prompt_tokens"),
            func.sum(attempts.c.completion_tokens).label("completion_tokens"),
            func.sum(attempts.c.cached_tokens).label("cached_tokens"),
            func.max(case((attempts.c.is_committed, attempts.c.first_token_s))).label("first_token_s"),
            func.count(attempts.c.tier.distinct()).label("num_tiers"),
            *counts,
        )
        .where(condition)
        .group_by(attempts.c.request_id)
        .subquery()
    )


def ttft_s(decided: FromClause, used: FromClause) -> ColumnElement[Any]:
    """The column `ttft_s`: an answer that was sent whole has no first token to time."""
    return case((decided.c.is_streaming, used.c.first_token_s)).label("ttft_s")


def _request(row: dict[str, Any]) -> LedgerRequest:
    for name in ("prompt_tokens", "completion_tokens"):  # PostgreSQL's sums are decimals
        row[name] = None if row[name] is None else int(row[name])
    return LedgerRequest(**row)


def _check_schema(connection: Connection, name: str, at_least: int) -> None:
    if not connection.dialect.has_table(connection, meta.name):
        raise LedgerError(f"{name} holds no ledger; name another with --home or --url")
    version = connection.scalar(select(meta.c.value).where(meta.c.name == "schema"))
    if version is not None and OLDEST_SCHEMA <= version < at_least:
        raise LedgerError(
            f"{name} has schema {version}, which does not hold this yet; a gateway of this version adds it "
            "with its first request (`tierwise up`)"
        )
    if version is None or not OLDEST_SCHEMA <= version <= SCHEMA_VERSION:
        raise LedgerError(
            f"{name} has schema {version} and this program reads schema {SCHEMA_VERSION}; "
            "read it with the version of tierwise that wrote it"
        )
