"""Programs that try to leave the sandbox, each way of isolating that this machine has. Every one must fail.

A program prints ESCAPED where it got away with something; what it might have left outside is looked for outside.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from train.sandbox.jail import Isolation, run_in
from train.sandbox.limits import Case, Ended, Limits, Run
from train.sandbox.probe import probe

SECRET = "tierwise-escape-marker-7f3a"
ROOT = Path(__file__).parents[3]

TRY = """
import os, socket, sys, ctypes, subprocess, signal
def attempt(function, *args):
    try:
        result = function(*args)
    except BaseException as error:
        print(type(error).__name__)
    else:
        print("ESCAPED", function, args, result)
libc = ctypes.CDLL(None, use_errno=True)
def syscall(function, *args):
    result = function(*args)
    if result < 0:
        raise OSError(ctypes.get_errno())
    return result
def read(path):
    return open(path, "rb").read(64)
def write(path):
    open(path, "wb").write(b"x")
"""

FAST = {
    "network": """
for port in (PORT, 80):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        attempt(lambda: socket.socket(family, socket.SOCK_STREAM).connect((host, port)))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT)))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0tierwise-escape"))
attempt(lambda: socket.create_server(("127.0.0.1", 0)))
attempt(lambda: socket.getaddrinfo("example.org", 80))
""",
    "environment": """
print(dict(os.environ))
for pid in (1, os.getppid(), PYTEST, "self"):
    attempt(read, f"/proc/{pid}/environ")
    attempt(read, f"/proc/{pid}/cmdline")
    attempt(os.listdir, f"/proc/{pid}/fd")
""",
    "files": """
for path in ("/etc/shadow", "/etc/passwd", "/root/.bashrc", "README", "/proc/self/root/etc/passwd", "/dev/mem"):
    attempt(read, path.replace("README", "CHECKOUT/README.md"))
for path in ("/", "/root", "/home", "/tmp", "CHECKOUT", "..", "/proc", "/sys", "/var/log", "/run"):
    attempt(os.listdir, path)
""",
    "symlinks": """
os.symlink("/etc/passwd", "one")
attempt(read, "one")
os.symlink("/tmp", "two")
attempt(write, "two/tierwise-escaped")
os.symlink("/", "three")
attempt(read, "three/etc/shadow")
attempt(os.link, "/etc/passwd", "four")
attempt(os.rename, "one", "../one")
attempt(write, "../../tierwise-escaped")
""",
    "writing": """
for path in ("/tmp/tierwise-escaped", "/dev/shm/tierwise-escaped", "/var/tmp/tierwise-escaped", "../tierwise-escaped",
             "CHECKOUT/tierwise-escaped", "/usr/tierwise-escaped", sys.executable, "/dev/sda", "/dev/kmsg"):
    attempt(write, path)
attempt(os.mkdir, "/tmp/tierwise-escaped")
attempt(os.unlink, "CHECKOUT/README.md")
attempt(os.chmod, "/usr/bin/python3", 0o777) if os.getuid() else None
""",
    "ptrace": """
for pid in (os.getppid(), PYTEST):
    attempt(syscall, libc.ptrace, 16, pid, 0, 0)
    attempt(syscall, libc.ptrace, 0x4206, pid, 0, 0)
    buffer = ctypes.create_string_buffer(16)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    attempt(syscall, libc.process_vm_readv, pid, vector, 1, vector, 1, 0)
    attempt(read, f"/proc/{pid}/mem")
""",
    "kill": """
for pid in (os.getppid(), PYTEST, 1):
    attempt(os.kill, pid, 0)
    attempt(os.kill, pid, 9)
    attempt(os.kill, pid, 19)
""",
    "privileges": """
attempt(os.setuid, 0) if os.getuid() else None
attempt(os.chroot, ".")
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000):
    attempt(syscall, libc.unshare, flag)
attempt(syscall, libc.mount, b"none", b".", b"tmpfs", 0, None)
attempt(syscall, libc.syscall, 321, 0, 0, 0)
attempt(syscall, libc.syscall, 425, 8, ctypes.create_string_buffer(256))
attempt(syscall, libc.syscall, 298, ctypes.create_string_buffer(128), 0, -1, -1, 0)
attempt(syscall, libc.syscall, 248, b"user", b"x", b"y", 1, -3)
attempt(os.setpriority, os.PRIO_PROCESS, 0, -5)
attempt(lambda: __import__("resource").setrlimit(1, (1 << 40, 1 << 40)))
""",
    "fork bomb": """
pids = []
try:
    while len(pids) < 200:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
    print("ESCAPED", len(pids))
except OSError as error:
    print(len(pids), error)
""",
    "memory": "kept = []\nwhile len(kept) < 100:\n    kept.append(bytearray(16 << 20))\nprint('ESCAPED')\n",
    "memory of many": """
for _ in range(6):
    if os.fork() == 0:
        kept = b"x" * (200 << 20)
        print("one", flush=True)
        signal.pause()
for _ in range(6):
    os.wait()
""",
    "large file": """
def fill():
    with open("large", "wb") as file:
        for _ in range(100):
            file.write(b"0" * (1 << 20))
attempt(fill)
""",
    "daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(999)  # SECRET"])
    os._exit(0)
os.wait()
""",
    "zombies": """
for _ in range(5):
    if os.fork() == 0:
        os._exit(0)
print("left")
""",
    "nasty leavings": """
path = "."
for _ in range(300):
    path += "/d"
    os.mkdir(path)
os.mkdir("closed")
open("closed/file", "w").close()
os.chmod("closed", 0)
os.chmod(".", 0)
""",
}  # fmt: skip

SLOW = {
    "deaf loop": """
for number in range(1, 64):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
while True: pass
""",
    "flood": "while True: os.write(1, b'x' * 65536)\n",
    "many files": "for index in range(100_000): open(str(index), 'wb').write(b'0' * 100_000)\n",
    "tiny files": "for index in range(100_000): open(str(index), 'wb').close()\n",
    "sleeping": "import time; time.sleep(100)\n",
    "endless forks": "while True:\n    try: os.fork()\n    except OSError: pass\n",
    "thread bomb": """
import threading
threading.stack_size(65536)
try:
    while True: threading.Thread(target=signal.pause, daemon=True).start()
except RuntimeError: print("refused")
""",
}  # fmt: skip


def ways() -> list[Isolation]:
    """What is used here, and the same without bubblewrap."""
    used = probe().isolation
    return [] if used is None else list(dict.fromkeys((used, replace(used, bwrap=None))))


@pytest.fixture(scope="module", params=range(2), ids=["as-used", "without-bubblewrap"])
def way(request: pytest.FixtureRequest) -> Isolation:
    """Each way of isolating there is."""
    found = ways()
    if not found:
        pytest.skip(f"nothing isolates here: {[trial.failure for trial in probe().trials]}")
    if request.param >= len(found):
        pytest.skip("bubblewrap is not used here, so there is one way only")
    return found[request.param]


class Listener(threading.Thread):
    """A server that notes whether anybody came."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.visitors: list[object] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, address = self.server.accept()
            except OSError:
                return
            connection.close()
            self.visitors.append(address)


def runs(way: Isolation, programs: Mapping[str, str], port: int, limits: Limits) -> dict[str, Run]:
    """What came of each program; they share one start."""
    cases = []
    for program in programs.values():
        named = program.replace("PORT", str(port)).replace("PYTEST", str(os.getpid()))
        named = named.replace("CHECKOUT", str(ROOT)).replace("SECRET", SECRET)
        cases.append(Case(["python3", "-I", "-S", "-c", TRY + named]))
    return dict(zip(programs, run_in(way, {"given.txt": "given"}, cases, limits), strict=True))


@pytest.fixture(scope="module")
def fast(way: Isolation) -> Iterator[dict[str, Run]]:
    """The fast programs, run with a secret in our environment and a server on this machine."""
    listener = Listener()
    os.environ["TIERWISE_ESCAPE_TEST"] = SECRET
    try:
        yield runs(way, FAST, listener.port, Limits(wall_s=10))
    finally:
        del os.environ["TIERWISE_ESCAPE_TEST"]
        listener.server.close()
    assert listener.visitors == []


@pytest.mark.parametrize("name", FAST)
def test_no_program_gets_away(fast: dict[str, Run], name: str) -> None:
    """Whatever it tries is refused, or it is ended."""
    run = fast[name]
    assert "ESCAPED" not in run.stdout, run.stdout
    assert SECRET not in run.stdout + run.stderr
    assert "SyntaxError" not in run.stderr
    assert "NameError" not in run.stderr


def test_attempts_were_made(fast: dict[str, Run]) -> None:
    """The programs ran: each that only asks was refused, one line for each question, and ended by itself."""
    for name, num_attempts in {"network": 8, "environment": 12, "files": 16, "ptrace": 8, "kill": 9}.items():
        assert fast[name].is_ok, (name, fast[name])
        assert len(fast[name].stdout.splitlines()) >= num_attempts, (name, fast[name].stdout)


def test_bombs_are_held(fast: dict[str, Run]) -> None:
    """Forks stop at the limit, memory at its limit whether one process asks or many."""
    assert int(fast["fork bomb"].stdout.split()[0]) <= Limits().max_processes
    assert fast["memory"].ended is Ended.MEMORY or "MemoryError" in fast["memory"].stderr
    assert fast["memory of many"].stdout.count("one") <= 1


def test_nothing_is_left(fast: dict[str, Run]) -> None:
    """No process, no directory, no file outside outlives a run."""
    alive = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _mentions(entry)]
    assert alive == []
    for place in (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"), ROOT, ROOT.parent, Path("/usr")):
        assert not (place / "tierwise-escaped").exists()


def _mentions(entry: Path) -> bool:
    try:
        return SECRET.encode() in (entry / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.training
def test_what_does_not_end_is_ended(way: Isolation) -> None:
    """Loops, floods, and bombs of files, forks and threads end at a limit, and the case after them runs."""
    found = runs(
        way,
        SLOW | {"after": "print(read('given.txt'))"},
        1,
        Limits(wall_s=2.5, max_files=200, max_disk_bytes=8 << 20),
    )
    ended = {name: run.ended for name, run in found.items()}
    assert ended["deaf loop"] is Ended.TIMEOUT
    assert ended["flood"] is Ended.TIMEOUT
    assert found["flood"].is_cut
    assert len(found["flood"].stdout) <= Limits().max_output_bytes
    assert ended["many files"] is Ended.DISK
    assert ended["tiny files"] is Ended.DISK
    assert ended["sleeping"] is Ended.TIMEOUT
    assert ended["endless forks"] is Ended.TIMEOUT
    assert ended["thread bomb"] in {Ended.EXITED, Ended.TIMEOUT, Ended.MEMORY}
    assert found["after"].stdout == "b'given'\n"
    assert all(run.seconds < 10 for run in found.values()), found


def test_bubblewrap_is_used_where_it_is_and_works() -> None:
    """Where bubblewrap is installed it was tried first, and is used unless the trial says why not."""
    first = probe().trials[0]
    if shutil.which("bwrap", path=os.defpath) is None:
        assert first.isolation.bwrap is None
    else:
        assert first.isolation.bwrap is not None
        assert bool(first.failure) == (probe().isolation != first.isolation)
