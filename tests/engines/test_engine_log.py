"""An engine's output is kept: all of it within bounds in a file, the end of it in memory."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from serving.engines import engine_log
from serving.engines.engine_log import EngineLog


async def read(log: EngineLog, *chunks: bytes) -> None:
    stream = asyncio.StreamReader()
    reading = asyncio.create_task(log.read(stream))
    for chunk in chunks:
        stream.feed_data(chunk)
        await asyncio.sleep(0)
    stream.feed_eof()
    await reading


async def test_the_last_lines_stay(tmp_path: Path) -> None:
    """The tail is the last lines, in order, however the output was cut into chunks; empty lines are none."""
    log = EngineLog(tmp_path / "logs" / "full.log")
    text = "".join(f"line {i} 🙂\n\n" for i in range(50)) + "no newline"
    await read(log, *(text.encode()[i : i + 7] for i in range(0, len(text.encode()), 7)))
    assert log.tail == (*(f"line {i} 🙂" for i in range(39, 50)), "no newline")
    assert (tmp_path / "logs" / "full.log").read_text() == text


async def test_the_tail_is_of_one_process(tmp_path: Path) -> None:
    """What an engine said before it was started again does not explain its next end; the file keeps both."""
    log = EngineLog(tmp_path / "full.log")
    await read(log, b"first\n")
    await read(log, b"second\n")
    assert log.tail == ("second",)
    assert (tmp_path / "full.log").read_text() == "first\nsecond\n"


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its size the file becomes the one before, and what was before that is gone."""
    monkeypatch.setattr(engine_log, "MAX_FILE_BYTES", 100)
    log = EngineLog(tmp_path / "full.log")
    for i in range(50):
        asyncio.run(read(log, f"{i:>9}\n".encode()))
    files = list(tmp_path.iterdir())
    assert {path.name for path in files} <= {"full.log", "full.1.log"}
    assert sum(path.stat().st_size for path in files) <= 2 * 110
    assert "49" in "".join(path.read_text() for path in sorted(files, key=lambda path: path.stat().st_mtime))


async def test_a_line_without_end(tmp_path: Path) -> None:
    """Output that never breaks a line takes bounded memory."""
    log = EngineLog(tmp_path / "full.log")
    await read(log, *([b"x" * 10_000] * 20))
    assert sum(map(len, log.tail)) <= engine_log.MAX_LINE_BYTES


async def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """Engines quote faulty requests."""
    log = EngineLog(tmp_path / "full.log")
    await read(log, b"x\n")
    assert stat.S_IMODE((tmp_path / "full.log").stat().st_mode) == 0o600
