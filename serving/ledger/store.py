"""The ledger: takes records from the event loop and writes them from a thread, in batches.

Recording never blocks and never fails. Records wait in a bounded buffer while the database is away; when it is full
the new ones are dropped, counted and reported. A kill loses what came in since the last flush, at most about
`flush_interval_s` of records, and never half a batch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from serving.ledger.database import BUSY_TIMEOUT_S, BadRowError, LedgerDatabase, UnavailableError, ledger_url
from serving.ledger.records import AttemptRecord, DecisionRecord, FeedbackRecord
from serving.ledger.settings import LedgerSettings
from serving.ledger.tables import Row, attempt_row, decision_row, feedback_row

MAX_BATCH: Final = 500
"""Records in one transaction; it holds SQLite's write lock for some milliseconds."""
MAX_BACKOFF_S: Final = 5.0
REPORT_EVERY_S: Final = 30.0
"""How often the log says that records wait or were dropped."""
CLOSE_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)

_Entry = tuple[DecisionRecord | AttemptRecord | FeedbackRecord, float]
"""A record and when it was taken."""


def _ignore(_count: int) -> object:
    return None


class Ledger:
    """Writes decisions, attempts and feedback to `settings.url`, or to SQLite in `home`.

    Args:
        settings: the `[ledger]` node.
        home: where the default database lives.
        on_written: told how many records were committed; called from the writer's thread.
        on_dropped: told how many records were lost; called from any thread.
        clock: Unix time.

    Raises:
        LedgerError: the URL cannot be used at all. A database that is merely away is waited for.
    """

    def __init__(
        self,
        settings: LedgerSettings,
        home: Path,
        *,
        on_written: Callable[[int], object] = _ignore,
        on_dropped: Callable[[int], object] = _ignore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_written = on_written
        self._on_dropped = on_dropped
        self._database = LedgerDatabase(ledger_url(settings.url, home))
        self._buffer: deque[_Entry] = deque()
        self._batches: deque[list[_Entry]] = deque()  # taken from the buffer, oldest first; the writer's own
        self._num_taken = 0
        self._batch_number = 1
        self._drop_lock = threading.Lock()
        self._num_unreported = 0
        self._fault = ""
        self._next_report_at = 0.0
        self._close_by = 0.0
        self._is_closing = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tierwise-ledger", daemon=True)
        self._thread.start()

    def record_decision(self, record: DecisionRecord) -> None:
        """Take a request that has ended. Its prompt goes no further unless `store_prompts` is on."""
        if record.prompt is not None and not self._settings.store_prompts:
            record = replace(record, prompt=None)
        self._put((record, self._clock()))

    def record_attempt(self, record: AttemptRecord) -> None:
        """Take an attempt that has ended."""
        self._put((record, self._clock()))

    def record_feedback(self, record: FeedbackRecord) -> None:
        """Take a grade."""
        self._put((record, self._clock()))

    @property
    def num_waiting(self) -> int:
        """Records taken and not yet written."""
        return len(self._buffer) + self._num_taken

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what waits and stop; blocks for about `timeout_s` at most. What is left then counts as dropped."""
        self._close_by = time.monotonic() + timeout_s
        self._is_closing.set()
        self._wake.set()
        self._thread.join(timeout_s + BUSY_TIMEOUT_S + 1.0)
        if num_left := self.num_waiting:
            self._on_dropped(num_left)
            _log.error("the ledger was closed with %d records unwritten: %s", num_left, self._fault)

    def _put(self, entry: _Entry) -> None:
        num_waiting = self.num_waiting
        if num_waiting >= self._settings.max_buffered or self._is_closing.is_set():
            self._drop(1)
            return
        self._buffer.append(entry)
        if num_waiting > self._settings.max_buffered // 2 and not self._wake.is_set():
            self._wake.set()

    def _drop(self, num_records: int) -> None:
        with self._drop_lock:
            self._num_unreported += num_records
        self._on_dropped(num_records)

    def _run(self) -> None:
        num_failures = 0
        while not self._is_closing.is_set() or (self.num_waiting and time.monotonic() < self._close_by):
            self._wait(num_failures)
            try:
                self._flush()
                num_failures = 0
            except UnavailableError as error:
                num_failures += 1
                self._fault = str(error)
            # Once is nothing to report: gateways that start together trip over each other's CREATE TABLE.
            self._report(is_failing=num_failures > 1)
        self._database.close()

    def _wait(self, num_failures: int) -> None:
        if not num_failures:
            self._wake.wait(self._settings.flush_interval_s)
            self._wake.clear()
        elif self._is_closing.wait(min(MAX_BACKOFF_S, 0.1 * 2 ** min(num_failures, 10))):
            time.sleep(0.05)

    def _flush(self) -> None:
        """Write all that waits, batch by batch, and split a batch that cannot be written until the bad row is alone."""
        while batch := self._next_batch():
            try:
                self._write(batch)
            except BadRowError as error:
                self._fault = str(error)
                self._batches.popleft()
                middle = len(batch) // 2
                if middle:
                    self._batches.extendleft((batch[middle:], batch[:middle]))
                else:
                    self._num_taken -= 1
                    self._drop(1)

    def _next_batch(self) -> list[_Entry] | None:
        if not self._batches and self._buffer:
            batch = [self._buffer.popleft() for _ in range(min(MAX_BATCH, len(self._buffer)))]
            self._num_taken += len(batch)
            self._batches.append(batch)
        return self._batches[0] if self._batches else None

    def _write(self, batch: list[_Entry]) -> None:
        try:
            rows = _rows(batch)
        except (AttributeError, TypeError) as error:  # a record that is none, which must not end the thread
            raise BadRowError(f"{type(error).__name__}: {error}") from error
        self._database.write(self._batch_number, **rows)
        self._batch_number += 1
        self._batches.popleft()
        self._num_taken -= len(batch)
        self._on_written(len(batch))

    def _report(self, *, is_failing: bool) -> None:
        """Say once in a while what is wrong, and once that it is over."""
        if not is_failing and not self._num_unreported:
            if self._next_report_at:
                _log.info("the ledger %s is written again", self._database.name)
            self._next_report_at, self._fault = 0.0, ""
            return
        if time.monotonic() < self._next_report_at:
            return
        self._next_report_at = time.monotonic() + REPORT_EVERY_S
        with self._drop_lock:
            num_dropped, self._num_unreported = self._num_unreported, 0
        _log.warning(
            "the ledger %s: %s; %d records wait to be written, %d were dropped since this was last said",
            self._database.name,
            self._fault or "too many records at once",
            self.num_waiting,
            num_dropped,
        )


def _rows(batch: list[_Entry]) -> dict[str, list[Row]]:
    """The rows of a batch, by the name under which `LedgerDatabase.write` takes them."""
    rows: dict[str, list[Row]] = {"decision_rows": [], "attempt_rows": [], "feedback_rows": []}
    for record, recorded_at in batch:
        if isinstance(record, DecisionRecord):
            rows["decision_rows"].append(decision_row(record))
        elif isinstance(record, FeedbackRecord):
            rows["feedback_rows"].append(feedback_row(record))
        else:
            rows["attempt_rows"].append(attempt_row(record, recorded_at=recorded_at))
    return rows
