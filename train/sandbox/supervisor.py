"""A process that runs cases under sandlock, one after another, each in a directory of its own, and leaves none alive.

It is a program, started by `train.sandbox.jail` with an empty environment and with nothing of ours on its path; it
imports the standard library and sandlock only. It reads its orders as JSON from standard input and writes what came of
them to standard output. Where it begins as root it becomes another user before any code runs. It adopts whatever its
cases leave behind, and kills it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
POLL_S: Final = 0.02
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
LIBRARIES: Final = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")


class _Pipe(threading.Thread):
    """Reads a stream to its end and keeps the first bytes, so that a case never waits for a reader."""

    def __init__(self, stream: IO[bytes], max_bytes: int) -> None:
        super().__init__(daemon=True)
        self._stream, self._max_bytes = stream, max_bytes
        self.kept = bytearray()
        self.is_cut = False
        self.start()

    def run(self) -> None:
        try:
            while part := self._stream.read(65536):
                room = self._max_bytes - len(self.kept)
                self.kept += part[:room]
                self.is_cut = self.is_cut or len(part) > room
        except (OSError, ValueError):  # closed under it, after the case
            return


def main() -> None:
    """Do what standard input says."""
    orders = json.load(sys.stdin)
    sys.path.append(orders["packages"])
    import sandlock  # while still who we are: a user that we become may not reach it

    signal.signal(signal.SIGTERM, lambda *_: _leave(orders["root"]))
    _become(orders["uid"], orders["parent"], orders["root"])
    answers = [_case(sandlock, orders, case, index) for index, case in enumerate(orders["cases"])]
    json.dump(answers, sys.stdout)


def _become(uid: int | None, parent: int, root: str) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        resource.setrlimit(resource.RLIMIT_NPROC, (256, 256))  # threads too; this uid is nobody else's
        prctl(PR_SET_DUMPABLE, 1)  # or /proc/self would be root's, and sandlock could not start
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent and os.getppid() != parent:
        _leave(root)


def _leave(root: str) -> None:
    """End early: we were told to, or who started us is gone and removes nothing any more."""
    _kill_descendants()
    shutil.rmtree(root, ignore_errors=True)
    os._exit(1)


def _case(sandlock: Any, orders: dict[str, Any], case: dict[str, Any], index: int) -> dict[str, Any]:
    box = Path(orders["root"]) / f"case-{index}"
    box.mkdir(mode=0o700)
    for name, content in orders["files"].items():
        path = box / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(content))
    try:
        return _run(sandlock, orders, case, box)
    finally:
        shutil.rmtree(box, ignore_errors=True)  # what resists is removed by the parent


def _run(sandlock: Any, orders: dict[str, Any], case: dict[str, Any], box: Path) -> dict[str, Any]:
    limits = orders["limits"]
    interpreter = orders["interpreter"]
    argv = [interpreter["executable"] if case["argv"][0] == "python3" else case["argv"][0], *case["argv"][1:]]
    started = time.monotonic()
    sandbox = sandlock.Sandbox(
        fs_readable=[
            path for path in (*LIBRARIES, *DEVICES, interpreter["prefix"]) if os.access(path, os.R_OK)
        ],
        fs_writable=[str(box)],
        cwd=str(box),
        clean_env=True,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(box),
            "USER": "nobody",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        max_memory=limits["memory_bytes"],
        max_processes=limits["max_processes"],
        max_open_files=64,
        no_coredump=True,
    )
    piped = sandlock.StdioMode.PIPED
    process = sandbox.popen(argv, stdin=piped, stdout=piped, stderr=piped)
    _limit(process.pid, limits)
    out, err = (_Pipe(stream, limits["max_output_bytes"]) for stream in (process.stdout, process.stderr))
    fed, process.stdin = process.stdin, None  # or its wait would close what is still being fed
    threading.Thread(target=_feed, args=(fed, base64.b64decode(case["stdin"])), daemon=True).start()
    result, why = _watched(process, box, limits, started)
    _kill_descendants()
    for pipe in (out, err):
        pipe.join(1.0)
    return {
        "stdout": base64.b64encode(out.kept).decode(),
        "stderr": base64.b64encode(err.kept).decode(),
        "is_cut": out.is_cut or err.is_cut,
        "exit_code": result.exit_code
        if why is None and result.reason == sandlock.ExitReason.EXITED
        else None,
        "ended": why or _ending(sandlock, result),
        "seconds": time.monotonic() - started,
    }


def _limit(pid: int | None, limits: dict[str, Any]) -> None:
    if pid is None:
        return
    for kind, amount in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["max_file_bytes"]),
    ):
        try:
            resource.prlimit(pid, kind, (amount, amount))
        except ProcessLookupError:
            return


def _feed(stream: IO[bytes], content: bytes) -> None:
    try:
        view = memoryview(content)
        while view:
            view = view[stream.write(view) :]
    except (OSError, ValueError):  # it does not read, or is gone
        pass
    finally:
        stream.close()


def _watched(process: Any, box: Path, limits: dict[str, Any], started: float) -> tuple[Any, str | None]:
    """Wait in another thread, for the library's wait is deaf to signals; kill past a limit and say which."""
    results: list[Any] = []
    waiting = threading.Thread(target=lambda: results.append(process.wait()), daemon=True)
    waiting.start()
    why: str | None = None
    while waiting.is_alive():
        waiting.join(POLL_S)
        if why is None and time.monotonic() - started > limits["wall_s"]:
            why = "timeout"
        if why is None and _is_full(box, limits):
            why = "disk"
        if why is not None:
            process.kill()
            _kill_descendants()
    return results[0], why


def _is_full(box: Path, limits: dict[str, Any]) -> bool:
    num_files = num_bytes = 0
    pending = [str(box)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    num_files += 1
                    num_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if num_files > limits["max_files"] or num_bytes > limits["max_disk_bytes"]:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:  # gone meanwhile, or closed to us
            continue
    return False


def _ending(sandlock: Any, result: Any) -> str:
    if result.reason == sandlock.ExitReason.EXITED:
        return "exited"
    return "memory" if result.reason == sandlock.ExitReason.KILLED else "killed"


def _kill_descendants() -> None:
    """Kill what has this process as its nearest living ancestor, until there is none; orphans are ours as well."""
    while children := _children():
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):  # reaped by sandlock
                continue


def _children() -> list[int]:
    me = str(os.getpid()).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # gone meanwhile
                continue
            if fields[1] == me and fields[0] != b"Z":
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    main()
