"""`python -m serving.engines.tether ARGV…`: becomes ARGV, tied to the life of the process that started it.

An engine must not outlive its supervisor, whichever way that ends. On Linux the kernel sends the engine SIGKILL when
its parent is gone (prctl(2), PR_SET_PDEATHSIG, which exec keeps). Elsewhere this process stays, looks twice a second
whether its parent still is who it was, and ends the group otherwise.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Final, NoReturn

PR_SET_PDEATHSIG: Final = 1


def main(argv: list[str]) -> None:
    """Replace this process by `argv[1:]`; `argv[0]` is the parent's process id.

    The parent may have died before the kernel was told, hence the comparison after it.
    """
    parent, command = int(argv[0]), argv[1:]
    if sys.platform != "linux":
        watch(parent, command)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the supervisor has ended already")
    os.execvp(command[0], command)  # noqa: S606  no shell is wanted


def watch(parent: int, command: list[str], *, interval_s: float = 0.5) -> NoReturn:
    """Run `command`, end as it ends, and end the process group once `parent` is gone.

    SIGTERM goes to the whole group, so the command has it already; this process waits for what the command makes of it.
    """
    signal.signal(signal.SIGTERM, lambda signum, frame: None)  # a handler, since exec would inherit SIG_IGN
    child = subprocess.Popen(command)  # noqa: S603
    while child.poll() is None:
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        time.sleep(interval_s)
    if child.returncode < 0:
        if -child.returncode != signal.SIGKILL:  # which has no handler
            signal.signal(-child.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -child.returncode)
    sys.exit(child.returncode)


def tethered(argv: tuple[str, ...], parent: int) -> tuple[str, ...]:
    """The command line that runs `argv` tied to the process `parent`."""
    return (sys.executable, "-P", "-m", "serving.engines.tether", str(parent), *argv)


if __name__ == "__main__":
    main(sys.argv[1:])
