"""A file of outcomes: JSON lines, appended and synced one by one, so that a crash costs at most the last line.

`.gz` files are read as well; they are for keeping, not for collecting into.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import orjson

from router.outcomes import OutcomeRow, as_members, from_members


class OutcomesFileError(Exception):
    """The file cannot be read or written; the message names the remedy."""


def read_outcomes(path: Path) -> list[OutcomeRow]:
    """All rows of a file, plain or `.gz`. A last line without its end was cut off while it was written: left out.

    Raises:
        OutcomesFileError: the file cannot be read, or a line is no outcome.
    """
    return parse_outcomes(path, read_unpacked(path))


def read_unpacked(path: Path) -> bytes:
    """The bytes of a file, plain or `.gz`.

    Raises:
        OutcomesFileError: it cannot be read.
    """
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise OutcomesFileError(f"{path}: cannot be read: {error}") from None


def parse_outcomes(path: Path, data: bytes) -> list[OutcomeRow]:
    """The rows in what `path` holds.

    Raises:
        OutcomesFileError: a line is no outcome.
    """
    return list(_rows(path, data))


class OutcomesFile:
    """A file open for appending, by this process alone."""

    def __init__(self, path: Path) -> None:
        """Open or create it.

        Raises:
            OutcomesFileError: it cannot be written, another collection writes it, or a line is no outcome.
        """
        if path.suffix == ".gz":
            raise OutcomesFileError(f"{path}: outcomes are collected into a plain file; gzip it afterwards")
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as error:
            raise OutcomesFileError(f"{path}: cannot be written: {error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.rows = self._recover()
        except BlockingIOError:
            self._file.close()
            raise OutcomesFileError(f"{path}: another collection is writing it") from None
        except OutcomesFileError:
            self._file.close()
            raise

    def append(self, row: OutcomeRow) -> None:
        """Write the row; it is on the disk when this returns.

        Raises:
            OutcomesFileError: it could not be written.
        """
        try:
            self._file.write(orjson.dumps(as_members(row)) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutcomesFileError(f"{self._path}: cannot be written: {error}") from None
        self.rows.append(row)

    def _recover(self) -> list[OutcomeRow]:
        """The rows that are there; a line that was cut off is removed."""
        self._file.seek(0)
        data = self._file.read()
        self._file.truncate(data.rfind(b"\n") + 1)
        return list(_rows(self._path, data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _rows(path: Path, data: bytes) -> Iterator[OutcomeRow]:
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            members = orjson.loads(line)
            if not isinstance(members, dict):
                raise ValueError("not an object")
            yield from_members(members)
        except ValueError as error:  # orjson's own is one
            raise OutcomesFileError(f"{path}:{number}: no outcome: {error}") from None
