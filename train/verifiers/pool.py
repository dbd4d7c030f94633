"""Verification in processes that can be killed, so that no verdict is ever waited for longer than its deadline.

Each worker has a thread that feeds it, waits for its reply, and past the deadline kills its process group and starts
another: a verifier that hangs costs one worker's time, never a slot. Results come in the order of what was asked. A
worker is renewed after a number of calls, for verifiers leak. Leaving the pool, by whatever way, leaves no process.

    with Pool() as pool:
        verdicts = pool.verify_all([(item, transcript), …])
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Protocol, Self

from train.domains.base import ErrorClass, Item, Verdict
from train.transcript import Transcript
from train.verifiers.process import Outcome, WorkerProcess
from train.verifiers.worker import Request

DEADLINE_S: Final = 30.0
"""Above the wall clock of any sandbox that a verifier starts, so that it is the sandbox that says what happened."""
MAX_CALLS: Final = 1_000
MAX_MEMORY_BYTES: Final = 4 << 30
WARM: Final = ("train.domains.catalog",)
VERIFY: Final = "train.verifiers.worker:verify"

_Job = tuple[Request, float, "Future[Outcome]"]


class Judge(Protocol):
    """Whatever has verdicts: a pool, or several in as many processes."""

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        """A verdict for each, in their order."""
        ...


class Pool:
    """Workers that verify; all of them hash with one seed, so that no verdict varies."""

    def __init__(
        self,
        num_workers: int | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        max_calls: int = MAX_CALLS,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        warm: tuple[str, ...] = WARM,
        hash_seed: int = 0,
    ) -> None:
        self.deadline_s = deadline_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._workers = [
            WorkerProcess(
                max_calls=max_calls, max_memory_bytes=max_memory_bytes, warm=warm, hash_seed=hash_seed
            )
            for _ in range(num_workers or os.cpu_count() or 1)
        ]
        self._threads = [
            threading.Thread(target=self._feed, args=(worker,), name=f"verifier-{index}", daemon=True)
            for index, worker in enumerate(self._workers)
        ]
        self._is_closed = False
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def num_starts(self) -> int:
        """Processes started so far: the workers, and one for each that was killed, died, or was renewed."""
        return sum(worker.num_starts for worker in self._workers)

    def close(self) -> None:
        """End every process now. What was asked and not answered is `ErrorClass.CRASHED`."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def submit(self, target: str, *args: Any, deadline_s: float | None = None) -> Future[Outcome]:
        """Have a worker call `module:function`; it must return JSON. The deadline begins when a worker does."""
        if self._is_closed:
            raise RuntimeError("the pool is closed")
        future: Future[Outcome] = Future()
        self._jobs.put((Request(target, args), deadline_s or self.deadline_s, future))
        return future

    def call(self, target: str, *args: Any, deadline_s: float | None = None) -> Outcome:
        """`submit`, and wait."""
        return self.submit(target, *args, deadline_s=deadline_s).result()

    def verify(self, item: Item, transcript: Transcript, *, deadline_s: float | None = None) -> Verdict:
        """The verdict of the item's domain; one that went wrong has an error and is worth 0."""
        return verdict_of(self.submit(VERIFY, item, transcript, deadline_s=deadline_s).result())

    def verify_all(
        self, pairs: Iterable[tuple[Item, Transcript]], *, deadline_s: float | None = None
    ) -> list[Verdict]:
        """A verdict for each, in their order. The deadline is each one's own."""
        futures = [self.submit(VERIFY, item, transcript, deadline_s=deadline_s) for item, transcript in pairs]
        return [verdict_of(future.result()) for future in futures]

    async def averify_all(
        self, pairs: Iterable[tuple[Item, Transcript]], *, deadline_s: float | None = None
    ) -> list[Verdict]:
        """`verify_all` without blocking the loop. A cancellation drops what no worker has begun."""
        futures = [self.submit(VERIFY, item, transcript, deadline_s=deadline_s) for item, transcript in pairs]
        outcomes = await asyncio.gather(*map(asyncio.wrap_future, futures))
        return [verdict_of(outcome) for outcome in outcomes]

    def _feed(self, worker: WorkerProcess) -> None:
        worker.start()
        while (job := self._jobs.get()) is not None:
            request, deadline_s, future = job
            if future.set_running_or_notify_cancel():
                future.set_result(worker.call(request, deadline_s))
        worker.close()


def verdict_of(outcome: Outcome) -> Verdict:
    """A reply of `train.verifiers.worker.verify` as a verdict.

    What a verifier raised may quote the answer, so the evidence of an error is its class and no more.
    """
    if outcome.error is not None:
        said = f"no verdict: {outcome.error}"
        return Verdict(score=0.0, passed=False, evidence=said, cost_s=outcome.seconds, error=outcome.error)
    reply: Any = outcome.value
    error = ErrorClass(reply["error"]) if reply["error"] else None
    return Verdict(
        score=reply["score"] if error is None else 0.0,
        passed=reply["passed"] and error is None,
        parts=reply["parts"],
        evidence=reply["evidence"],
        cost_s=outcome.seconds,
        error=error,
    )
