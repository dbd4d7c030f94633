"""One worker process seen from outside: started, asked, and killed with its process group at a deadline.

It belongs to the thread that made it: the kernel ends it with that thread (`train.verifiers.worker`).
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Final

from train.domains.base import ErrorClass
from train.transcript import JsonValue
from train.verifiers.worker import LENGTH_BYTES, Request, Setup, write_frame

START_S: Final = 120.0
"""In which a worker must be ready. Imports on a busy machine take long; this is no verifier's time."""
MAX_REPLY_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to."""

    value: JsonValue = None
    error: ErrorClass | None = None
    evidence: str = ""
    """Of an error: the exception and its message, or how the process ended. For people; it may hold the answer."""
    seconds: float = 0.0


class WorkerProcess:
    """A worker; it is started again whenever it has died."""

    def __init__(
        self, *, max_calls: int, max_memory_bytes: int, warm: tuple[str, ...], hash_seed: int = 0
    ) -> None:
        self._max_calls = max_calls
        self._hash_seed = hash_seed
        self._setup = Setup(tuple(sys.path), warm, max_memory_bytes)
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._num_calls = 0
        self._is_ready = False
        self.num_starts = 0

    def start(self) -> None:
        """Let a process start; it warms up while nobody waits."""
        with self._lock:
            if self._process is not None or self._is_closed:
                return
            argv = (sys.executable, "-m", "train.verifiers.worker", str(os.getpid()))
            self._process = subprocess.Popen(  # noqa: S603
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(self._setup.path, self._hash_seed),
                start_new_session=True,
            )
            self._num_calls, self._is_ready = 0, False
            self.num_starts += 1

    def call(self, request: Request, deadline_s: float) -> Outcome:
        """Run it. Past the deadline the process is killed, and the next one starts at once."""
        self.start()
        if not self._is_ready and (failed := self._await_ready()) is not None:
            return failed
        started = time.monotonic()
        reply = self._exchange(pickle.dumps(request), started + deadline_s)
        seconds = time.monotonic() - started
        self._num_calls += 1
        if isinstance(reply, ErrorClass):
            how = f"no verdict after {deadline_s:g} s" if reply is ErrorClass.TIMED_OUT else self._ending()
            self._restart()
            return Outcome(error=reply, evidence=how, seconds=seconds)
        if self._num_calls >= self._max_calls:
            self._restart()
        if "error" in reply:
            said = f"{reply['type']}: {reply['message']}"
            return Outcome(error=ErrorClass(str(reply["error"])), evidence=said, seconds=seconds)
        return Outcome(value=reply["value"], seconds=seconds)

    def kill(self) -> None:
        """End the process and its group, from any thread, and start none any more."""
        with self._lock:
            self._is_closed = True
            self._end()

    def close(self) -> None:
        """`kill`, and release what it held; by the thread that made the calls."""
        self.kill()
        if self._process is not None:
            _close_pipes(self._process)

    def _restart(self) -> None:
        with self._lock:
            self._end()
            process, self._process = self._process, None
        if process is not None:
            _close_pipes(process)
        self.start()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _await_ready(self) -> Outcome | None:
        reply = self._exchange(pickle.dumps(self._setup), time.monotonic() + START_S)
        if isinstance(reply, ErrorClass):
            how = self._ending()
            self._restart()
            return Outcome(error=ErrorClass.UNAVAILABLE, evidence=f"no worker could be started: {how}")
        self._is_ready = True
        return None

    def _exchange(self, payload: bytes, until: float) -> dict[str, JsonValue] | ErrorClass:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ErrorClass.CRASHED
        try:
            write_frame(process.stdin, payload)
            header = _read(process.stdout.fileno(), LENGTH_BYTES, until)
            size = int.from_bytes(header, "big")
            if size > MAX_REPLY_BYTES:
                return ErrorClass.CRASHED
            reply: dict[str, JsonValue] = json.loads(_read(process.stdout.fileno(), size, until))
        except TimeoutError:
            return ErrorClass.TIMED_OUT
        except (
            OSError,
            EOFError,
            ValueError,
        ):  # it died, was closed by another thread, or wrote something else
            return ErrorClass.CRASHED
        return reply

    def _ending(self) -> str:
        process = self._process
        if process is None or self._is_closed:
            return "the pool was closed"
        try:
            code = process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return "the worker spoke out of turn"
        return (
            f"the worker was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"the worker left with {code}"
        )


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # bytes that were still to be sent have nowhere to go
                pipe.close()


def _environment(path: tuple[str, ...], hash_seed: int) -> dict[str, str]:
    """Nothing of the caller's: a verifier has no use for keys. Hashes are fixed, for verdicts must not vary."""
    paths = os.pathsep.join(entry for entry in path if entry)
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": paths,
        "PYTHONHASHSEED": str(hash_seed),
        "OMP_NUM_THREADS": "1",
    }


def _read(descriptor: int, size: int, until: float) -> bytes:
    """Exactly `size` bytes.

    Raises:
        TimeoutError: they were not there by then.
        EOFError: the other side is gone.
    """
    parts: list[bytes] = []
    while size > 0:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(descriptor, size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
