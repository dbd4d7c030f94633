"""Callbacks at set moments, exact to some tens of microseconds.

Event loops round their timers to milliseconds (libuv counts in them, epoll waits in them), which is as much
as a good gateway adds. Here a Linux timerfd, set to the earliest alarm, wakes the loop; elsewhere the loop's
own timers serve, to the millisecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
_TFD_TIMER_ABSTIME = 1


class Alarm:
    """One pending callback."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call back. Does nothing after it rang."""
        self._callback = None

    def _ring(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class _Waker(Protocol):
    def wake_at(self, when_s: float | None) -> None: ...
    def close(self) -> None: ...


class Alarms:
    """The alarms of one event loop, on the clock of `time.monotonic`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._is_ringing = False
        self._waker: _Waker = (_TimerFd if sys.platform == "linux" else _LoopTimer)(loop, self._ring)

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Alarm:
        """Call back at `when_s`, or as soon as the loop runs if that has passed; never before."""
        alarm = Alarm(callback)
        heapq.heappush(self._heap, (when_s, next(self._order), alarm))
        if not self._is_ringing and self._heap[0][2] is alarm:
            self._waker.wake_at(when_s)
        return alarm

    def close(self) -> None:
        """Drop every alarm."""
        self._heap.clear()
        self._waker.close()

    def _ring(self) -> None:
        heap = self._heap
        self._is_ringing = True
        try:
            while heap and heap[0][0] <= time.monotonic():
                heapq.heappop(heap)[2]._ring()
        finally:
            self._is_ringing = False
            self._waker.wake_at(heap[0][0] if heap else None)


class _Timerspec(ctypes.Structure):
    """`struct itimerspec`: the period, which stays zero, then the moment."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class _TimerFd:
    """timerfd_create(2). `os.timerfd_create` came with Python 3.13 only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._settime = libc.timerfd_settime
        self._spec = _Timerspec()
        self._spec_pointer = ctypes.byref(self._spec)
        self._loop = loop
        loop.add_reader(self._fd, ring)

    def wake_at(self, when_s: float | None) -> None:
        # Setting the timer also clears an expiry that nobody has read, so no read(2) is ever needed. Zero
        # would disarm it.
        when_ns = 0 if when_s is None else int(when_s * 1e9) + 1
        self._spec.value_s, self._spec.value_ns = divmod(when_ns, 1_000_000_000)
        self._settime(self._fd, _TFD_TIMER_ABSTIME, self._spec_pointer, None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


class _LoopTimer:
    """The loop's own timer, where there is no timerfd."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def wake_at(self, when_s: float | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        delay_s = None if when_s is None else max(0.0, when_s - time.monotonic())
        self._handle = None if delay_s is None else self._loop.call_later(delay_s, self._ring)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
