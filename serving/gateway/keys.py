"""API keys and admin keys: made, listed and revoked by an operator, checked on every request.

An API key opens `/v1`, an admin key `/admin`, and neither the other.
A key is shown once, when it is made. What is kept is its BLAKE2b hash, keyed with a *pepper*: 32 random bytes in a
file of their own, without which a copy of keys.json tells nothing about any key. Keys carry 256 random bits, so that a
slow hash would add nothing but time.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from serving.registry.durable import sync
from serving.registry.errors import RegistryError
from serving.registry.lock import exclusive

KEY_PREFIX: Final = "tw-"
CHECK_EVERY_S: Final = 1.0
"""How often the file is looked at: a key that was made or revoked counts within this time."""
MAX_KEY_CHARS: Final = 128
"""Longer than any key of ours; more is not hashed."""
LOCK_TIMEOUT_S: Final = 10.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORMAT: Final = 1
_PEPPER_BYTES: Final = 32

_log = logging.getLogger(__name__)


class KeyStoreError(Exception):
    """A key cannot be made, found or checked; the message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """What is known of a key. The key itself is known to its holder alone."""

    name: str
    created_at: float
    """Unix time, seconds."""
    digest: str = field(repr=False)
    """Keyed hash of the key, in hex."""
    is_admin: bool = False
    """Whether it opens `/admin`, and nothing else."""


class KeyStore:
    """The keys in one file, which other processes may change meanwhile.

    Args:
        path: `<home>/keys.json`; it, its lock and its pepper are made with the first key, for the owner alone.
        monotonic: clock by which the file is looked at again.
        wall_clock: Unix time.
    """

    def __init__(
        self,
        path: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._pepper_path = path.with_name(f"{path.stem}.pepper")
        self._lock_path = path.with_name(f"{path.stem}.lock")
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._pepper = b""
        self._by_digest: dict[str, KeyRecord] = {}
        self._seen: tuple[int, ...] | None = None
        self._check_at = float("-inf")
        self._fault = ""

    @property
    def has_any(self) -> bool:
        """Whether there is an API key at all."""
        return any(not record.is_admin for record in self.records())

    @property
    def has_admin(self) -> bool:
        """Whether there is an admin key, by what `verify` looked at last."""
        return any(record.is_admin for record in self._by_digest.values())

    def records(self) -> list[KeyRecord]:
        """Every key, the oldest first, as the file has it now.

        Raises:
            KeyStoreError: the file cannot be read.
        """
        self._load()
        return sorted(self._by_digest.values(), key=lambda record: record.created_at)

    def verify(self, presented: str) -> KeyRecord | None:
        """Whose key this is; None where it is nobody's.

        Looks the hash up, whose value nobody without the pepper can steer: the time taken tells nothing of how near a
        guess was. Reads the file where it has changed, at most every `CHECK_EVERY_S`; while it cannot be read, the
        keys last read stay good.
        """
        now = self._monotonic()
        if now >= self._check_at:
            self._check_at = now + CHECK_EVERY_S
            try:
                self._load()
                self._fault = ""
            except KeyStoreError as error:
                self._report(str(error))
        if not self._pepper or len(presented) > MAX_KEY_CHARS:
            return None
        digest = _digest(presented, self._pepper)
        record = self._by_digest.get(digest)
        return record if record and hmac.compare_digest(record.digest, digest) else None

    def create(self, name: str, *, is_admin: bool = False) -> str:
        """Make a key and return it, the only time that it can be seen.

        Raises:
            KeyStoreError: the name is taken or not a name, or the files cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise KeyStoreError(
                f"{name!r} cannot name a key: use up to 64 letters, digits, dots, hyphens and underscores"
            )
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        with _errors_named(), exclusive(self._lock_path, timeout_s=LOCK_TIMEOUT_S):
            self._load()
            self._make_pepper()
            if any(record.name == name for record in self._by_digest.values()):
                raise KeyStoreError(
                    f"there is a key named {name!r}; choose another name, or `tierwise keys revoke {name}` first"
                )
            record = KeyRecord(
                name=name,
                created_at=self._wall_clock(),
                digest=_digest(key, self._pepper),
                is_admin=is_admin,
            )
            self._save([*self._by_digest.values(), record])
        return key

    def revoke(self, name: str) -> None:
        """Let a key be nobody's. A running gateway refuses it within `CHECK_EVERY_S`.

        Raises:
            KeyStoreError: there is no such key, or the file cannot be written.
        """
        with _errors_named(), exclusive(self._lock_path, timeout_s=LOCK_TIMEOUT_S):
            kept = [record for record in self.records() if record.name != name]
            if len(kept) == len(self._by_digest):
                raise KeyStoreError(
                    f"there is no key named {name!r}; `tierwise keys list` shows those there are"
                )
            self._save(kept)

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            _log.error("API keys: %s; those read before stay in force", fault)
        self._fault = fault

    def _load(self) -> None:
        """Read the file, unless it is the one that was read last."""
        with _errors_named():
            seen = _identity(self._path)
            if seen == self._seen:
                return
            by_digest = {} if seen is None else _parse(self._path.read_bytes(), self._path)
            pepper = _read_pepper(self._pepper_path)
            if by_digest and not pepper:
                raise KeyStoreError(
                    f"{self._pepper_path} is gone, without which no key can be checked; bring it back, or remove "
                    f"{self._path} and make new keys"
                )
            self._by_digest, self._pepper, self._seen = by_digest, pepper, seen

    def _make_pepper(self) -> None:
        self._pepper = self._pepper or _read_pepper(self._pepper_path)
        if not self._pepper:
            self._pepper = secrets.token_bytes(_PEPPER_BYTES)
            _write_private(self._pepper_path, self._pepper)

    def _save(self, records: list[KeyRecord]) -> None:
        file = {"format": _FORMAT, "keys": records}
        _write_private(self._path, orjson.dumps(file, option=orjson.OPT_INDENT_2))
        self._load()


def presented_key(headers: Mapping[str, str]) -> str:
    """The bearer token in these headers; empty where there is none."""
    scheme, _, presented = headers.get("authorization", "").partition(" ")
    return presented.strip() if scheme.lower() == "bearer" else ""


@contextmanager
def _errors_named() -> Iterator[None]:
    """What goes wrong with the files becomes a `KeyStoreError`."""
    try:
        yield
    except (OSError, RegistryError) as error:
        raise KeyStoreError(str(error)) from error


def _digest(key: str, pepper: bytes) -> str:
    return blake2b(key.encode(errors="surrogatepass"), key=pepper, digest_size=32).hexdigest()


def _identity(path: Path) -> tuple[int, ...] | None:
    """What differs between two files that were renamed to one path; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _parse(data: bytes, path: Path) -> dict[str, KeyRecord]:
    try:
        file = orjson.loads(data)
        if file["format"] != _FORMAT:
            raise KeyStoreError(f"{path} has format {file['format']!r}, this program reads format {_FORMAT}")
        records = [KeyRecord(**key) for key in file["keys"]]
    except (ValueError, TypeError, KeyError):  # not quoted: it would show digests
        raise KeyStoreError(f"{path} is damaged; bring it back, or remove it and make new keys") from None
    return {record.digest: record for record in records}


def _read_pepper(path: Path) -> bytes:
    """Empty where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _write_private(path: Path, data: bytes) -> None:
    """Replace `path`, readable by the owner alone at every moment; after a crash it is the old file or the new."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)  # left by a crash; the lock is ours
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    sync(path.parent)
