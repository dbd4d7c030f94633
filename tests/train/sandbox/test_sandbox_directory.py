"""Directories of runs: nobody's are removed, somebody's are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from train.sandbox.directory import PREFIX, claimed, remove_leftovers

ROOT = Path(__file__).parents[3]
OURS = {os.getuid()}
HOLDS = """
import sys, time
from pathlib import Path
from train.sandbox.directory import claimed
with claimed(Path(sys.argv[1])) as root:
    (root / "closed").mkdir(mode=0)
    print(root, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that holds a directory, and the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_a_killed_owner_left_is_removed(
    tmp_path: Path, owner: tuple[subprocess.Popen[str], Path]
) -> None:
    """While its owner lives a directory stays; once he was killed it goes, whatever is in it."""
    process, root = owner
    assert remove_leftovers(tmp_path, OURS) == []
    assert root.is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert root.is_dir()
    assert remove_leftovers(tmp_path, OURS) == [root]
    assert list(tmp_path.iterdir()) == []


def test_ones_own_is_kept_while_in_use(tmp_path: Path) -> None:
    """Also in the process that looks: a run in another thread keeps what it has; left, it is gone."""
    with claimed(tmp_path) as root:
        assert remove_leftovers(tmp_path, OURS) == []
        assert root.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """Other names, other users' directories, and links to elsewhere stay."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("")
    (tmp_path / f"{PREFIX}strange").mkdir()
    assert remove_leftovers(tmp_path, {os.getuid() + 1}) == []
    assert remove_leftovers(tmp_path, OURS) == [tmp_path / f"{PREFIX}strange"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "elsewhere",
        f"{PREFIX}file",
        f"{PREFIX}link",
    ]


def test_making_and_removing_at_once(tmp_path: Path) -> None:
    """However often somebody looks for leftovers, whoever holds a directory has it until he leaves it."""
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            remove_leftovers(tmp_path, OURS)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(40):
            with claimed(tmp_path) as root:
                (root / "file").write_text("kept")
                assert (root / "file").read_text() == "kept"
    finally:
        is_over.set()
        looking.join()
    assert list(tmp_path.iterdir()) == []
