"""What a sandbox may raise; all else that happens to code is a `Run`."""

from __future__ import annotations


class UnavailableError(RuntimeError):
    """Nothing here isolates well enough, so the code was not run. A verdict from it is `ErrorClass.UNAVAILABLE`."""
