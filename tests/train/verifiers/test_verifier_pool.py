"""Verifiers that hang, die or raise cost one worker's time, and nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from train.domains.base import ErrorClass
from train.verifiers.pool import Pool, verdict_of
from train.verifiers.process import Outcome

HERE = "tests.train.verifiers.test_verifier_pool"


def answer(value: int) -> int:
    return value * value


def hang() -> None:
    while True:
        pass


def hang_with_child(path: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    hang()


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def raise_value_error() -> None:
    raise ValueError("the answer was 42")


def nothing_json() -> object:
    return object()


def print_much() -> int:
    sys.stdout.write("noise" * 10_000)
    sys.stdout.flush()
    return 1


def process_id() -> int:
    return os.getpid()


def devour() -> int:
    return len(bytearray(8 << 30))


def variables() -> list[str]:
    return sorted(os.environ)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Two workers."""
    with Pool(2, deadline_s=60, warm=()) as made:
        yield made


def target(function: object) -> str:
    return f"{HERE}:{function.__name__}"  # type: ignore[attr-defined]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 20
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, "a process outlived its pool"
        time.sleep(0.02)


def test_results_keep_their_order(pool: Pool) -> None:
    """Many calls over few workers come back as they were asked."""
    futures = [pool.submit(target(answer), value) for value in range(200)]
    assert [future.result().value for future in futures] == [value * value for value in range(200)]


def test_a_hang_costs_one_worker_and_no_slot(pool: Pool) -> None:
    """More hangs than workers time out, and the pool answers as before, at its full width."""
    before = pool.num_starts
    hanging = [pool.submit(target(hang), deadline_s=0.3) for _ in range(4)]
    right = pool.submit(target(answer), 7)
    assert [future.result().error for future in hanging] == [ErrorClass.TIMED_OUT] * 4
    assert right.result().value == 49
    assert pool.num_starts == before + 4
    ids = {pool.call(target(process_id)).value for _ in range(40)}
    assert 1 <= len(ids) <= 2


def test_a_hanging_verifiers_children_die_with_it(pool: Pool, tmp_path: Path) -> None:
    """The whole process group is killed at the deadline."""
    noted = tmp_path / "pids"
    outcome = pool.call(target(hang_with_child), str(noted), deadline_s=5)
    assert outcome.error is ErrorClass.TIMED_OUT
    until_gone(*map(int, noted.read_text().split()))


@pytest.mark.parametrize(
    ("function", "error", "evidence"),
    [
        (crash, ErrorClass.CRASHED, "SIGSEGV"),
        (leave, ErrorClass.CRASHED, "left with 3"),
        (raise_value_error, ErrorClass.CRASHED, "ValueError: the answer was 42"),
        (nothing_json, ErrorClass.CRASHED, "TypeError"),
        (devour, ErrorClass.CRASHED, "MemoryError"),
    ],
)
def test_every_end_has_its_class(pool: Pool, function: object, error: ErrorClass, evidence: str) -> None:
    """A segmentation fault, an exit, an exception and a memory bomb are errors of their class, never values."""
    outcome = pool.call(target(function))
    assert (outcome.value, outcome.error) == (None, error)
    assert evidence in outcome.evidence
    assert pool.call(target(answer), 3).value == 9


def test_what_a_verifier_prints_disturbs_nothing(pool: Pool) -> None:
    """Standard output is not the channel of replies."""
    assert pool.call(target(print_much)).value == 1


def test_a_worker_knows_nothing_of_the_callers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys in the environment do not reach a verifier."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    with Pool(1, warm=()) as one:
        names = one.call(target(variables)).value
    assert isinstance(names, list)
    assert "PYTHONHASHSEED" in names
    assert "SOME_API_KEY" not in names


def test_a_worker_is_renewed_after_its_calls() -> None:
    """With two calls a worker, five calls meet three processes."""
    with Pool(1, max_calls=2, warm=()) as one:
        ids = [one.call(target(process_id)).value for _ in range(5)]
    assert ids[0] == ids[1] != ids[2] == ids[3] != ids[4]


def test_closing_ends_what_hangs_and_cancels_nobody_silently() -> None:
    """A closed pool answers everything that was asked, as crashed, and is gone at once."""
    made = Pool(1, deadline_s=600, warm=())
    pid = made.call(target(process_id)).value
    futures = [made.submit(target(hang)) for _ in range(3)]
    time.sleep(0.1)
    started = time.monotonic()
    made.close()
    assert time.monotonic() - started < 5
    assert [future.result().error for future in futures] == [ErrorClass.CRASHED] * 3
    assert isinstance(pid, int)
    until_gone(pid)
    with pytest.raises(RuntimeError, match="closed"):
        made.submit(target(answer), 1)


async def test_the_loop_is_not_blocked_and_a_cancellation_passes(pool: Pool) -> None:
    """While a verifier runs the loop turns; a cancelled wait leaves a pool that works."""
    hanging = asyncio.wrap_future(pool.submit(target(hang), deadline_s=1))
    turns = 0
    while not hanging.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    waiting = asyncio.wrap_future(pool.submit(target(hang), deadline_s=0.5))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await asyncio.wrap_future(pool.submit(target(answer), 5))).value == 25


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_end_of_the_program_leaves_no_process(how: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C, and even SIGKILL, take the workers along while they are busy."""
    noted = tmp_path / "pids"
    script = f"""
from train.verifiers.pool import Pool
with Pool(1, warm=()) as pool:
    pool.call("{target(hang_with_child)}", {str(noted)!r}, deadline_s=600)
"""
    program = subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[3], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not noted.exists() or not noted.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    worker, child = map(int, noted.read_text().split())
    program.send_signal(how)
    program.wait(30)
    if how is signal.SIGKILL:  # the kernel ends the worker; its own child is none of the kernel's business
        os.kill(child, signal.SIGKILL)
    until_gone(worker, child)


def test_an_error_is_worth_nothing_and_quotes_nothing() -> None:
    """The verdict of an error has score 0, did not pass, and its evidence holds no message of an exception."""
    verdict = verdict_of(
        Outcome(error=ErrorClass.CRASHED, evidence="ValueError: the answer was 42", seconds=0.5)
    )
    assert (verdict.score, verdict.passed, verdict.error, verdict.cost_s) == (
        0.0,
        False,
        ErrorClass.CRASHED,
        0.5,
    )
    assert "42" not in verdict.evidence
