"""Where log lines go: to standard error, from a thread of its own.

Standard error is often a pipe to a collector, and a pipe that nobody empties blocks its writer. The event loop
must not be that writer: it puts each line on a bounded queue and goes on, and a thread renders and writes. When
the queue is full, lines are dropped, and how many is said in the log as soon as it moves again. The thread writes
to the descriptor itself: stuck inside `sys.stderr` it would hold a lock that the interpreter needs to end.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Literal, Self

from serving.ledger.records import AttemptRecord, DecisionRecord
from serving.telemetry.lines import (
    Fields,
    Render,
    as_json,
    as_text,
    level_of,
    message_fields,
    request_fields,
)

LogFormat = Literal["json", "text", "auto"]
"""`auto`: text where the stream is a terminal, JSON elsewhere."""

STDERR: Final = 2
MAX_WAITING: Final = 4096
"""Lines that may wait for the thread; a few megabytes."""
CLOSE_TIMEOUT_S: Final = 2.0
_MAX_LINES_A_WRITE: Final = 256


class LogWriter(logging.Handler):
    """Writes one line for each request and for each message of `logging`.

    Install it with `with start_logging(...)`. Safe from any thread; no call waits for the stream.
    """

    def __init__(
        self,
        render: Render,
        *,
        level: int = logging.INFO,
        descriptor: int = STDERR,
        max_waiting: int = MAX_WAITING,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(level)
        self._render = render
        self._descriptor = descriptor
        self._max_waiting = max_waiting
        self._clock = clock
        self._lines: SimpleQueue[Fields | None] = SimpleQueue()
        self._num_dropped = 0
        self._drop_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tierwise-log", daemon=True)
        self._thread.start()

    def request(self, decision: DecisionRecord, attempts: Sequence[AttemptRecord]) -> None:
        """Log one request that has ended, with its attempts in order."""
        if level_of(decision.status) >= self.level:
            # The fields and not the records wait on the queue: a decision may hold a long prompt.
            self._put(request_fields(decision, attempts, at=self._clock()))

    def emit(self, record: logging.LogRecord) -> None:
        """Log a message. Its text is made here, not in the thread: what it says may change meanwhile."""
        try:
            fields = message_fields(record)
        except Exception as error:  # noqa: BLE001  a wrong format string is not the caller's downfall
            fields = self._notice(f"{record.name} logged {record.msg!r} wrongly: {error}")
        self._put(fields)

    def _put(self, fields: Fields) -> None:
        if self._lines.qsize() < self._max_waiting:
            self._lines.put(fields)
        else:
            self._drop(1)

    def _drop(self, num_lines: int) -> None:
        with self._drop_lock:
            self._num_dropped += num_lines

    def close(self) -> None:
        """Write what waits, for at most `CLOSE_TIMEOUT_S`, and leave `logging`."""
        logging.getLogger().removeHandler(self)
        self._lines.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            waiting = [self._lines.get()]
            with suppress(Empty):
                while len(waiting) < _MAX_LINES_A_WRITE:
                    waiting.append(self._lines.get_nowait())
            is_open = None not in waiting
            self._write([fields for fields in waiting if fields is not None])

    def _write(self, lines: list[Fields]) -> None:
        with self._drop_lock:
            num_dropped, self._num_dropped = self._num_dropped, 0
        text = "".join(map(self._render, lines))
        if num_dropped:
            text += self._render(
                self._notice(f"{num_dropped} log lines were dropped: their reader is too slow")
            )
        try:
            write_all(self._descriptor, text.encode(errors="backslashreplace"))
        except OSError:  # the reader is gone, and there is nowhere to say so
            self._drop(num_dropped + len(lines))

    def _notice(self, message: str) -> Fields:
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, None, None)
        record.created = self._clock()
        return message_fields(record)


def start_logging(log_format: LogFormat, level: str = "info", *, descriptor: int = STDERR) -> LogWriter:
    """Send every message and request of the process through one `LogWriter`, until it is closed.

    uvicorn must be run with `log_config=None, access_log=False`, so that its messages come here and its own
    access log, which would say everything twice, is off.
    """
    is_text = log_format == "text" or (log_format == "auto" and os.isatty(descriptor))
    writer = LogWriter(
        as_text if is_text else as_json,
        level=logging.getLevelNamesMapping()[level.upper()],
        descriptor=descriptor,
    )
    root = logging.getLogger()
    root.addHandler(writer)
    root.setLevel(writer.level)
    return writer


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, waiting as long as it takes, also where the descriptor does not block."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [], 1.0)
