"""An event loop whose clock jumps to the next timer instead of waiting for it: hours of queueing in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _JumpingSelector(selectors.DefaultSelector):
    """Asked to wait for so long, adds it to the clock and looks once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: every task waits and no timer is set")
        self.now += timeout
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code without I/O of its own. `loop.time()` is the clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end in virtual time. What a callback raises is raised here, and not only logged."""
    failures: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: failures.append(context))
        result = runner.run(main)
    if failures:
        raise RuntimeError(failures[0]["message"]) from failures[0].get("exception")
    return result
