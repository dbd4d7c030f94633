"""`tierwise ledger export`: decisions into a file, whole or not at all."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson
from sqlalchemy.engine import URL

from serving.ledger.database import LedgerError, sqlite_path
from serving.ledger.export import PROMPT, SCHEMA, Selection, exported
from serving.ledger.query import open_for_reading
from serving.registry.durable import sync


class ExportError(LedgerError):
    """Nothing was written; the message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    out: str
    num_decisions: int
    num_prompts: int | None
    """Decisions with their prompt; None where prompts were not asked for."""

    def __str__(self) -> str:
        told = f"{self.out}: {self.num_decisions:,} decisions"
        return told if self.num_prompts is None else f"{told}, {self.num_prompts:,} with their prompts"


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """All but the span of time, which other sub-verbs have too."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where to; what is there is replaced"
    )
    parser.add_argument(
        "--tier",
        action="append",
        default=[],
        metavar="TIER",
        dest="tiers",
        help="answered by it; may be repeated",
    )
    parser.add_argument(
        "--arm", action="append", default=[], metavar="ARM", dest="arms", help="chosen; may be repeated"
    )
    parser.add_argument(
        "--prompts", action="store_true", help="with what was asked, where [ledger] store_prompts kept it"
    )


def export(args: argparse.Namespace, url: URL) -> Exported:
    """Write the decisions that the options select, a JSON object a line.

    Raises:
        LedgerError: there is no ledger, it is of another version, prompts are asked for and none is stored, or the file
            cannot be written. What was at `args.out` before is there still.
    """
    selection = Selection(since=args.since, until=args.until, tiers=tuple(args.tiers), arms=tuple(args.arms))
    try:
        with (
            open_for_reading(url, at_least=SCHEMA) as connection,
            _interrupted_by_sigterm(),
            replacing(_checked(args.out, url)) as out,
        ):
            num_decisions, num_prompts = _write(
                exported(connection, selection, with_prompts=args.prompts), out
            )
            if args.prompts and not num_prompts:
                raise ExportError(
                    f"none of {num_decisions:,} decisions has its prompt, and nothing was written. A gateway stores "
                    "prompts only where its operator says so: set `store_prompts = true` under [ledger], let it serve, "
                    "and export again; or leave --prompts out"
                )
    except OSError as error:
        raise ExportError(f"{args.out} cannot be written ({error}); name another with --out") from None
    return Exported(
        out=str(args.out),
        num_decisions=num_decisions,
        num_prompts=num_prompts if args.prompts else None,
    )


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file for the owner's eyes alone that takes the place of `path` once it is whole and on the disk.

    However the block is left otherwise, `path` stays as it was and nothing stays beside it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
    sync(path.parent)


def _write(records: Iterable[Mapping[str, Any]], out: IO[bytes]) -> tuple[int, int]:
    """How many records, and how many of them with a prompt."""
    num_records = num_prompts = 0
    for record in records:
        out.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        num_records += 1
        num_prompts += bool(record.get(PROMPT))
    return num_records, num_prompts


def _checked(out: Path, url: URL) -> Path:
    """Where a link leads, unless what is there must not be replaced."""
    path = out.resolve()
    if path.exists() and not path.is_file():
        raise ExportError(f"{out} is no file, and would be replaced by one; name another with --out")
    ledger = sqlite_path(url)
    if ledger is not None and path == ledger.resolve():
        raise ExportError(f"{out} is the ledger itself; name another file with --out")
    return path


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Whoever ends the process politely leaves nothing half either."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
