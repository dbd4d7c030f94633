"""A queue as a directory of files, each with one writer, so that adding, cancelling and running need no server.

    jobs/<id>.json       what was asked for: written once, by who adds
    cancelled/<id>       an empty file: by who cancels
    progress/<id>.json   how far it is: by the slot that holds it
    held/<id>            locked (flock) by the slot that runs it; the kernel lets go when a process dies
    runs/<id>/           the run itself
    turns-<slot>.jsonl   what each slot did with its time

Every file is written beside, flushed to the disk and renamed. What cannot be read as a job is passed over and said.
"""

from __future__ import annotations

import fcntl
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from serving.registry.durable import write_atomically
from train.scheduler.job import Entry, Job, JobStatus, Progress
from train.scheduler.turns import Turn

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_log = logging.getLogger(__name__)


class QueueError(Exception):
    """The queue cannot do what it was asked; the message names the remedy."""


class Queue:
    """The queue in a directory, which is created where absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("jobs", "cancelled", "progress", "held", "runs"):
            (path / name).mkdir(parents=True, exist_ok=True)

    def add(self, job: Job) -> None:
        """Take a job in.

        Raises:
            QueueError: its id is no file name, or another job has it.
        """
        if not _ID.fullmatch(job.id):
            raise QueueError(f"{job.id!r} is no id; use lower case, digits, `_`, `.` and `-`")
        path = self.path / "jobs" / f"{job.id}.json"
        if path.exists():
            raise QueueError(f"there is a job {job.id} already; name this one otherwise by --id")
        write_atomically(path, json.dumps(asdict(job)).encode())

    def cancel(self, job_id: str) -> None:
        """Ask that a job be stopped, or not begun; its run stays where it is.

        Raises:
            QueueError: there is no such job.
        """
        if not (self.path / "jobs" / f"{job_id}.json").exists():
            raise QueueError(f"there is no job {job_id!r}; see `tierwise train queue list`")
        write_atomically(self.path / "cancelled" / job_id, b"")

    def entries(self) -> list[Entry]:
        """All jobs as they stand, by id."""
        return [
            Entry(job, self.progress(job.id), self._is_held(job.id))
            for path in sorted((self.path / "jobs").glob("[!.]*.json"))
            if (job := _read_job(path)) is not None
        ]

    def is_cancelled(self, job_id: str) -> bool:
        """Whether somebody asked for it."""
        return (self.path / "cancelled" / job_id).exists()

    def progress(self, job_id: str) -> Progress:
        """How far the job has come. One that was cancelled while nobody ran it is over."""
        path = self.path / "progress" / f"{job_id}.json"
        plain: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
        found = Progress(**{**plain, "status": JobStatus(plain.get("status", JobStatus.WAITING))})
        if found.status is JobStatus.WAITING and self.is_cancelled(job_id):
            return Progress(**{**asdict(found), "status": JobStatus.CANCELLED})
        return found

    def report(self, job_id: str, progress: Progress) -> None:
        """Write how far the job is; for who holds it."""
        write_atomically(self.path / "progress" / f"{job_id}.json", json.dumps(asdict(progress)).encode())

    def run_path(self, job_id: str) -> Path:
        """Where its run is."""
        return self.path / "runs" / job_id

    @contextmanager
    def hold(self, job_id: str) -> Iterator[bool]:
        """Hold the job against every other slot while inside; False where another holds it."""
        with (self.path / "held" / job_id).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _is_held(self, job_id: str) -> bool:
        path = self.path / "held" / job_id
        if not path.exists():
            return False
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def record(self, slot: str, turn: Turn) -> None:
        """What a slot did with its time."""
        with (self.path / f"turns-{slot}.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(turn)) + "\n")

    def turns(self) -> dict[str, list[Turn]]:
        """By slot, in order."""
        return {
            path.stem.removeprefix("turns-"): [
                Turn(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()
            ]
            for path in sorted(self.path.glob("turns-*.jsonl"))
        }


def _read_job(path: Path) -> Job | None:
    try:
        return Job(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        _log.warning("%s is passed over, for it is no job: %s", path, error)
        return None
