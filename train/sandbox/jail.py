"""Starts the supervisor inside what isolates here, and ends it with everything below it.

The supervisor confines each case by sandlock. Around it, where namespaces may be made, stands bubblewrap, started with
an empty environment because the environment of process 1 can be read inside (`--clearenv` does not help). Where we are
root, the code runs as a user that owns nothing.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

from train.sandbox.directory import claimed
from train.sandbox.errors import UnavailableError
from train.sandbox.interpreter import Interpreter, own_interpreter
from train.sandbox.limits import Case, Ended, Limits, Run

BASE: Final = Path("/tmp")  # noqa: S108  a fresh directory is made in it; TMPDIR may be closed to another user
START_S: Final = 30.0
"""Beside the wall clocks of the cases; a busy machine starts slowly."""
GRACE_S: Final = 2.0
"""In which a supervisor that is told to end has killed what it runs."""
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_BOUND: Final = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a run is put into, beside sandlock, which always is."""

    bwrap: str | None
    """Path of bubblewrap where it is used."""
    uid: int | None
    """The user that code becomes; None where it stays who we are, which is root's bad luck if we are root."""
    interpreter: Interpreter


def run_in(
    isolation: Isolation, files: Mapping[str, bytes | str], cases: Sequence[Case], limits: Limits
) -> list[Run]:
    """Run each case on a fresh copy of the files, one after another.

    Raises:
        UnavailableError: the supervisor could not isolate them, and did not run them.
    """
    with claimed(BASE) as root:
        if isolation.uid is not None:
            os.chown(root, isolation.uid, isolation.uid)
        answer = _supervised(
            isolation, root, _orders(isolation, root, files, cases, limits), len(cases), limits
        )
    return [_run(part) for part in answer] if answer is not None else [_unended(limits)] * len(cases)


def command(isolation: Isolation, root: Path) -> list[str]:
    """The command line of the supervisor."""
    ours = own_interpreter()
    python = [ours.executable, "-I", "-S", str(_SUPERVISOR)]
    if isolation.bwrap is None:
        return python
    bound = (
        *_BOUND,
        ours.prefix,
        isolation.interpreter.prefix,
        str(_packages() / "sandlock"),
        str(_SUPERVISOR),
    )
    spaces = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # Root keeps the namespace of users, for inside a new one there would be no other user to become.
    root_caps = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    who = ["--unshare-user"] if isolation.uid is None else root_caps
    return [
        isolation.bwrap, *spaces, *who, "--die-with-parent", "--proc", "/proc", "--dev", "/dev",
        # First, or they are made for root alone.
        *(word for path in ("/etc", str(root.parent)) for word in ("--perms", "0755", "--dir", path)),
        *(word for path in dict.fromkeys(bound) for word in ("--ro-bind-try", path, path)),
        "--bind", str(root), str(root), "--", *python,
    ]  # fmt: skip


def _packages() -> Path:
    spec = find_spec("sandlock")
    if spec is None or spec.origin is None:
        raise UnavailableError("sandlock is not installed: pip install 'tierwise[train]'")
    return Path(spec.origin).parents[1]


def _orders(
    isolation: Isolation, root: Path, files: Mapping[str, bytes | str], cases: Sequence[Case], limits: Limits
) -> bytes:
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
            raise ValueError(f"{name!r} is no path inside of a directory")
    orders = {
        "packages": str(_packages()),
        "uid": isolation.uid,
        "parent": 0 if isolation.bwrap else os.getpid(),
        "root": str(root),
        "interpreter": dataclasses.asdict(isolation.interpreter),
        "limits": dataclasses.asdict(limits),
        "files": {name: _encoded(content) for name, content in files.items()},
        "cases": [{"argv": list(case.argv), "stdin": _encoded(case.stdin)} for case in cases],
    }
    return json.dumps(orders).encode()


def _supervised(
    isolation: Isolation, root: Path, orders: bytes, num_cases: int, limits: Limits
) -> list[dict[str, Any]] | None:
    """The supervisor's answer; None where it gave none in time."""
    # HOME must be there, for sandlock asks for it as it is imported.
    process = subprocess.Popen(  # noqa: S603
        command(isolation, root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": "/nonexistent"},
        cwd="/",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(orders, timeout=START_S + num_cases * (limits.wall_s + 1))
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process, isolation)
    if process.returncode != 0:
        raise UnavailableError(f"the sandbox did not start: {err.decode(errors='replace').strip()[-500:]}")
    answer: list[dict[str, Any]] = json.loads(out)
    return answer


def _end(process: subprocess.Popen[bytes], isolation: Isolation) -> None:
    """Let the supervisor kill what it runs, then kill it; a namespace of processes ends with its first."""
    if process.poll() is None and isolation.bwrap is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isolation.uid is not None:
            _sweep(isolation.uid)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            pipe.close()


def _sweep(uid: int) -> None:
    """Kill every process of a user that exists for the sandbox only."""
    while found := [
        entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _is_of(entry, uid)
    ]:
        for entry in found:
            try:
                os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def _is_of(entry: Path, uid: int) -> bool:
    try:
        return entry.stat().st_uid == uid and b") Z" not in (entry / "stat").read_bytes()
    except OSError:
        return False


def _encoded(content: bytes | str) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def _run(part: dict[str, Any]) -> Run:
    return Run(
        stdout=base64.b64decode(part["stdout"]).decode(errors="replace"),
        stderr=base64.b64decode(part["stderr"]).decode(errors="replace"),
        exit_code=part["exit_code"],
        ended=Ended(part["ended"]),
        seconds=part["seconds"],
        is_cut=part["is_cut"],
    )


def _unended(limits: Limits) -> Run:
    return Run("", "", None, Ended.TIMEOUT, limits.wall_s)
