"""`python -m serving.engines.tether ARGV…`: becomes ARGV, tied to the life of the process that started it.

An engine must not outlive its supervisor, whichever way that ends. On Linux the kernel sends the engine SIGKILL when its
parent is gone (prctl(2), PR_SET_PDEATHSIG, which exec keeps). Elsewhere only an orderly end stops the engine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(argv: list[str]) -> None:
    """Replace this process by `argv[1:]`; `argv[0]` is the parent's process id.

    The parent may have died before the kernel was told, hence the comparison after it.
    """
    parent, command = int(argv[0]), argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the supervisor has ended already")
    os.execvp(command[0], command)  # noqa: S606  no shell is wanted


def tethered(argv: tuple[str, ...], parent: int) -> tuple[str, ...]:
    """The command line that runs `argv` tied to the process `parent`."""
    return (sys.executable, "-I", "-m", "serving.engines.tether", str(parent), *argv)


if __name__ == "__main__":
    main(sys.argv[1:])
