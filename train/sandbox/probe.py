"""Finds out what isolates on this machine, by trying to break out of it.

Each way of isolating is given a program that reads what it must not, connects, signals and writes outside. A way is
used only if every attempt fails; if none is left, code is not run at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from train.sandbox.directory import remove_leftovers
from train.sandbox.errors import UnavailableError
from train.sandbox.interpreter import own_interpreter, reachable_interpreter
from train.sandbox.jail import BASE, Isolation, run_in
from train.sandbox.limits import Case, Limits

FIRST_UID: Final = 50_000
NUM_UIDS: Final = 10_000
"""Users of the sandbox, by process id, so that two programs of ours do not share one; below 2¹⁶, for containers map no
more."""

ATTEMPTS: Final = """
import os, socket
def reads(path):
    with open(path, "rb") as file:
        file.read(1)
def writes(path):
    with open(path, "wb") as file:
        file.write(b"x")
def connects(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(1)
        one.connect(address)
def binds():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
attempts = {
    "read /etc/passwd": lambda: reads("/etc/passwd"),
    "read /etc/shadow": lambda: reads("/etc/shadow"),
    "read the environment of process 1": lambda: reads("/proc/1/environ"),
    "read the environment of its parent": lambda: reads(f"/proc/{os.getppid()}/environ"),
    "read what is beside it": lambda: os.listdir(".."),
    "write to /tmp": lambda: writes("/tmp/tierwise-escaped"),
    "write beside it": lambda: writes("../escaped"),
    "connect to the network": lambda: connects(socket.AF_INET, ("192.0.2.1", 80)),
    "connect to this machine": lambda: connects(socket.AF_INET, ("127.0.0.1", 22)),
    "bind a port": binds,
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "become root": lambda: os.setuid(0) if os.getuid() else os.chown("/tmp", 0, 0),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except TimeoutError:
        print(name)
    except OSError as error:
        if isinstance(error, ConnectionRefusedError):
            print(name)
    else:
        print(name)
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way of isolating, tried."""

    isolation: Isolation
    failure: str
    """Why it is not used; empty where it isolates."""

    @property
    def description(self) -> str:
        """What it consists of."""
        who = f"as user {self.isolation.uid}" if self.isolation.uid is not None else "as the calling user"
        inside = " inside bubblewrap with an empty environment" if self.isolation.bwrap else ""
        return f"sandlock (Landlock and seccomp), resource limits, wall clock, {who}{inside}"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found on this machine."""

    trials: tuple[Trial, ...]
    """The best way first; the first without a failure is used, and those after it are not tried."""
    notes: tuple[str, ...]

    @property
    def isolation(self) -> Isolation | None:
        """The way that is used."""
        return next((trial.isolation for trial in self.trials if not trial.failure), None)


@cache
def probe() -> Probe:
    """Try, once in a process. What sandboxes of processes that were killed have left behind is removed first."""
    remove_leftovers(BASE, {os.getuid(), *range(FIRST_UID, FIRST_UID + NUM_UIDS)})
    trials: list[Trial] = []
    for isolation in _ways():
        trials.append(Trial(isolation, escapes(isolation)))
        if not trials[-1].failure:
            break
    return Probe(tuple(trials), tuple(_notes(trials)))


def isolation() -> Isolation:
    """What isolates here.

    Raises:
        UnavailableError: nothing does; it says what was tried.
    """
    found = probe()
    if found.isolation is None:
        tried = "; ".join(trial.failure for trial in found.trials)
        raise UnavailableError(f"nothing isolates untrusted code here, so none is run ({tried})")
    return found.isolation


def escapes(isolation: Isolation) -> str:
    """What a program got away with, or why it did not run; empty where it was held."""
    case = Case(["python3", "-I", "-S", "attempts.py"])
    try:
        [run] = run_in(isolation, {"attempts.py": ATTEMPTS}, [case], Limits(wall_s=15))
    except (UnavailableError, OSError) as error:
        return str(error)
    if not run.is_ok:
        return f"a program did not run in it ({run.ended}): {run.stderr.strip()[-300:]}"
    return f"code could {', '.join(run.stdout.splitlines())}" if run.stdout else ""


def _ways() -> Iterator[Isolation]:
    reachable = reachable_interpreter() if os.getuid() == 0 else None
    uid = FIRST_UID + os.getpid() % NUM_UIDS if reachable is not None else None
    interpreter = reachable or own_interpreter()
    bwrap = shutil.which("bwrap", path=os.defpath)
    if bwrap is not None:
        yield Isolation(bwrap, uid, interpreter)
    yield Isolation(None, uid, interpreter)


def _notes(trials: list[Trial]) -> Iterator[str]:
    if trials[0].isolation.bwrap is None:
        yield "bubblewrap is not installed (Debian: apt install bubblewrap): no namespaces around the code"
    if os.getuid() == 0 and trials[0].isolation.uid is None:
        yield "no Python here can be reached by another user: code stays root, held by Landlock and seccomp alone"
    if trials[0].isolation.interpreter != own_interpreter():
        yield f"code runs under {trials[0].isolation.interpreter.executable}, for ours is in a private directory"
