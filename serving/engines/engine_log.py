"""An engine's output: to a file of bounded size, and its last lines to whoever asks why it ended."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 8 * 2**20
"""The file is begun anew beyond it; the one before stays beside it, ending in `.1.log`."""
TAIL_LINES: Final = 12
MAX_LINE_BYTES: Final = 2**14
FINISH_S: Final = 1.0
"""How long the last output may take to arrive after the end: what left the process group may still hold the pipe."""


class EngineLog:
    """Writes to `path`; keeps the tail in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of the process that was read last."""
        return tuple(self._tail)

    async def capture(self) -> Capture:
        """A pipe for a process to write into, read from now on."""
        read_end, write_end = os.pipe()
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read_end, "rb", buffering=0)
        )
        return Capture(write_end, transport, asyncio.create_task(self.read(stream)))

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read until the stream ends."""
        self._tail.clear()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rest = b""
        while data := await stream.read(2**16):
            self._write(data)
            *lines, rest = (rest + data)[-MAX_LINE_BYTES:].split(b"\n")
            self._tail.extend(line.decode(errors="replace").rstrip() for line in lines if line.strip())
        if rest.strip():
            self._tail.append(rest.decode(errors="replace").rstrip())

    def _write(self, data: bytes) -> None:
        # Messages about faulty requests quote them, so the file is for its owner alone.
        with open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
            is_full = file.tell() > MAX_FILE_BYTES
        if is_full:
            self._path.replace(self._path.with_suffix(".1.log"))


class Capture:
    """One process's output on its way into the log.

    A pipe of our own: with asyncio's, waiting for a process lasts until whatever inherited the pipe has ended, too.
    """

    def __init__(self, write_end: int, transport: asyncio.BaseTransport, reading: asyncio.Task[None]) -> None:
        self.write_end = write_end
        """The process's standard output; `started` closes our copy."""
        self._transport = transport
        self._reading = reading

    def started(self) -> None:
        """The process has the pipe now, or will never have it."""
        os.close(self.write_end)

    async def finish(self) -> None:
        """Let the last output arrive, then close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                await self._reading
        self._transport.close()
