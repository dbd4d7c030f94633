"""A PostgreSQL of a test's own: made anew, reached on this machine alone, and gone with the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pg8000 import native

READY_S = 60.0
USER = "postgres"


def found(program: str) -> Path | None:
    """Where Debian or the PATH has it."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    on_path = shutil.which(program)
    return places[-1] if places else Path(on_path) if on_path else None


@contextmanager
def running() -> Iterator[str]:
    """The URL of an empty database, for SQLAlchemy; without PostgreSQL on this machine the test is skipped."""
    initdb, postgres = found("initdb"), found("postgres")
    if initdb is None or postgres is None:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    as_other = {"user": USER} if os.geteuid() == 0 else {}  # it does not run as root
    with tempfile.TemporaryDirectory(prefix="tierwise-postgresql-") as made, socket.socket() as free:
        place = Path(made)
        if as_other:
            shutil.chown(place, USER)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        data = ["-D", str(place / "data")]
        create = [str(initdb), *data, "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-sync"]
        subprocess.run(create, check=True, capture_output=True, cwd=place, **as_other)
        serve = [str(postgres), *data, "-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"]
        with (place / "log").open("wb") as log:
            server = subprocess.Popen(serve, stdout=log, stderr=log, cwd=place, **as_other)
        try:
            _wait(server, port, place / "log")
            yield f"postgresql+pg8000://{USER}@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(READY_S)


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_S
    while True:
        try:
            native.Connection(USER, host="127.0.0.1", port=port, database="postgres").close()
        except (native.InterfaceError, native.DatabaseError) as error:
            if server.poll() is not None or time.monotonic() > until:
                pytest.fail(f"PostgreSQL does not come up ({error}): {log.read_text()}")
            time.sleep(0.1)
        else:
            return
