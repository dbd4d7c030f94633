"""Running code in the sandbox: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from train.sandbox import probe as probing
from train.sandbox.errors import UnavailableError
from train.sandbox.interpreter import Interpreter, is_public, own_interpreter, reachable_interpreter
from train.sandbox.jail import Isolation, command, run_in
from train.sandbox.limits import Case, Ended, Limits
from train.sandbox.probe import Probe, Trial, probe
from train.sandbox.run import run_cases, run_code

ROOT = Path(__file__).parents[3]
ORDINARY_UID = 64_000


@pytest.fixture
def isolating() -> None:
    """This machine isolates."""
    if probe().isolation is None:
        pytest.skip(f"nothing isolates here: {[trial.failure for trial in probe().trials]}")


@pytest.fixture
def base() -> Iterator[Path]:
    """A place for directories of runs that nobody else uses, and that any user can enter."""
    made = Path(tempfile.mkdtemp(prefix="tierwise-test-", dir="/tmp"))
    made.chmod(0o1777)  # as /tmp
    yield made
    shutil.rmtree(made)


@pytest.fixture
def nothing_isolates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose every way of isolating lets something through."""
    failed = Probe((Trial(Isolation(None, None, own_interpreter()), "code could read /etc/shadow"),), ())
    monkeypatch.setattr(probing, "probe", lambda: failed)
    return iter(())


@pytest.mark.usefixtures("isolating")
def test_cases_share_a_start_and_no_directory(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input, output, errors and status come back for each case, on files as given, and nothing stays."""
    monkeypatch.setattr("train.sandbox.jail.BASE", base)
    source = """
import sys, pathlib
assert pathlib.Path("data/one.txt").read_text() == "one"
pathlib.Path("data/one.txt").write_text("changed")
print(input()[::-1])
print("said", file=sys.stderr)
sys.exit(int(input()))
"""
    files = {"main.py": source, "data/one.txt": b"one"}
    cases = [Case(["python3", "main.py"], f"case {status}\n{status}\n") for status in (0, 3)]
    first, second = run_cases(files, cases)
    assert (first.stdout, first.stderr, first.exit_code, first.ended) == (
        "0 esac\n",
        "said\n",
        0,
        Ended.EXITED,
    )
    assert (second.stdout, second.exit_code, second.is_ok) == ("3 esac\n", 3, False)
    assert first.is_ok
    assert list(base.iterdir()) == []


@pytest.mark.usefixtures("isolating")
def test_every_end_is_told_apart() -> None:
    """Time, memory, a signal, a status and cut output are each what they are."""
    programs = {
        "timeout": "while True: pass",
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "exited": "import os; os.write(1, b'\\xff' * 100)",
    }
    cases = [Case(["python3", "-c", program]) for program in programs.values()]
    found = run_cases({}, [*cases, Case(["ls", "nothing"])], Limits(wall_s=1, max_output_bytes=10))
    assert [run.ended for run in found] == [*map(Ended, programs), Ended.EXITED]
    assert (found[2].stdout, found[2].is_cut) == ("\ufffd" * 10, True)
    assert found[0].exit_code is None
    assert 0.9 < found[0].seconds < 5
    assert found[3].exit_code == 2


@pytest.mark.usefixtures("isolating")
def test_a_large_input_nobody_reads_does_not_block() -> None:
    """A program that ignores its input ends as it would without."""
    assert run_code({}, ["python3", "-c", "print(1)"], stdin=b"x" * (4 << 20)).stdout == "1\n"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
def test_files_stay_inside(name: str) -> None:
    """A name that leads out of the directory is refused before anything starts."""
    with pytest.raises(ValueError, match="no path inside"):
        run_in(Isolation(None, None, own_interpreter()), {name: "x"}, [Case(["ls"])], Limits())


@pytest.mark.usefixtures("nothing_isolates")
def test_where_nothing_isolates_nothing_runs(tmp_path: Path) -> None:
    """It fails closed, and says what was tried."""
    with pytest.raises(UnavailableError, match=r"none is run .code could read /etc/shadow"):
        run_code({}, ["python3", "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"])
    assert not (tmp_path / "ran").exists()


def test_a_supervisor_that_cannot_start_is_unavailable() -> None:
    """An isolation that does not work raises; it never runs the code without."""
    broken = Isolation("/bin/false", None, own_interpreter())
    with pytest.raises(UnavailableError, match="did not start"):
        run_in(broken, {}, [Case(["ls"])], Limits())
    assert probing.escapes(broken)


def test_bubblewrap_is_started_without_environment_and_without_network() -> None:
    """Its command line unshares what matters, drops what root has, and binds nothing writable but the box."""
    as_root = command(Isolation("bwrap", 50_000, Interpreter("/usr/bin/python3", "/usr")), Path("/tmp/box"))
    as_user = command(Isolation("bwrap", None, Interpreter("/usr/bin/python3", "/usr")), Path("/tmp/box"))
    for words in (as_root, as_user):
        assert {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent"} <= set(words)
        assert [words[i + 1] for i, word in enumerate(words) if word == "--bind"] == ["/tmp/box"]
    assert as_root[as_root.index("--cap-drop") + 1] == "ALL"
    assert "--unshare-user" in as_user


def test_an_interpreter_is_used_only_if_others_reach_it(tmp_path: Path) -> None:
    """One below a private directory is none; the candidates are then tried in order."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "python3").symlink_to(own_interpreter().executable)
    (private / "file").write_text("")
    assert not is_public(private / "file")
    assert not is_public(tmp_path / "absent")
    if not is_public(Path(own_interpreter().executable)):
        assert reachable_interpreter(candidates=[str(private / "absent")]) is None


def test_an_ordinary_user_is_held_as_well() -> None:
    """Without root the same attempts fail; this is run as another user where we are root."""
    if os.getuid() != 0:
        pytest.skip("we are an ordinary user: every other test shows it")
    python, spec = reachable_interpreter(), find_spec("sandlock")
    assert spec is not None
    assert spec.origin is not None
    if python is None or not is_public(Path(spec.origin)) or not is_public(Path(__file__)):
        pytest.skip("another user reaches no Python, or not this checkout")
    script = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(Path(spec.origin).parents[1])!r}]
from train.sandbox.probe import probe
from train.sandbox.run import run_code
print([trial.failure for trial in probe().trials][-1:])
print(run_code({{}}, ["python3", "-c", "import os; print(os.getuid())"]).stdout)
"""
    asked = subprocess.run(
        [python.executable, "-I", "-S", "-c", script],
        user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[], env={}, cwd="/", capture_output=True, text=True,
    )  # fmt: skip
    assert asked.stdout.split() == ["['']", str(ORDINARY_UID)], asked.stderr


def test_the_program_is_ended_with_its_sandbox(base: Path) -> None:
    """Killed in the middle of a run, we leave no process behind, nor a directory where no namespace died with us."""
    if probe().isolation is None:
        pytest.skip("nothing isolates here")
    marker = f"tierwise-orphan-{os.getpid()}"
    script = f"""
from pathlib import Path
from train.sandbox import jail
from train.sandbox.limits import Limits
from train.sandbox.run import run_code
jail.BASE = Path({str(base)!r})
run_code({{}}, ["python3", "-c", "import time; time.sleep(600)  # {marker}"], limits=Limits(wall_s=600))
"""
    program = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    _until(lambda: len(_processes(marker, but=program.pid)) > 0)
    program.kill()
    program.wait()
    _until(lambda: not _processes(marker, but=program.pid))
    used = probe().isolation
    if used is not None and used.bwrap is None:
        _until(lambda: not list(base.iterdir()))


def _until(is_so: object, within_s: float = 30.0) -> None:
    import time

    deadline = time.monotonic() + within_s
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _processes(marker: str, but: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) not in {but, os.getpid()}:
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
