"""Which Python runs untrusted code: the one that runs us, if the user that the code becomes can reach it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SYSTEM_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
OLDEST: Final = (3, 11)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and what it must be able to read."""

    executable: str
    prefix: str


def own_interpreter() -> Interpreter:
    """The Python under the virtual environment that we run in; packages of the environment are not code's to see."""
    return Interpreter(os.path.realpath(sys.executable), sys.base_prefix)


def reachable_interpreter(candidates: Sequence[str] = SYSTEM_PYTHONS) -> Interpreter | None:
    """The first that any user can read and run: ours, or the system's if it is not too old; else None."""
    ours = own_interpreter()
    if is_public(Path(ours.executable)) and is_public(Path(ours.prefix) / "lib"):
        return ours
    for executable in candidates:
        if is_public(Path(executable)) and _version(executable) >= OLDEST:
            return Interpreter(os.path.realpath(executable), str(Path(executable).parents[1]))
    return None


def is_public(path: Path) -> bool:
    """Whether every user may read it and enter every directory above it."""
    try:
        path = path.resolve(strict=True)
        modes = [path.stat().st_mode, *(above.stat().st_mode for above in path.parents)]
    except OSError:
        return False
    return bool(modes[0] & stat.S_IROTH) and all(mode & stat.S_IXOTH for mode in modes[1:])


def _version(executable: str) -> tuple[int, ...]:
    asked = subprocess.run(  # noqa: S603
        [executable, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    return tuple(map(int, asked.stdout.split()))
