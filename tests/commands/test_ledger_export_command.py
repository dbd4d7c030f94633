"""Tests of serving.commands.ledger_export: a file that is whole, or none."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.commands import ledger_export
from serving.commands.ledger import main
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.tables import decision_row
from tests.ledger_records import DECISION


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a ledger of three requests, two of them with their prompts."""
    home = tmp_path / "home"
    database = LedgerDatabase(ledger_url(None, home))
    prompts = ("What is rain?", None, "And snow?")
    rows = [
        decision_row(replace(DECISION, request_id=f"req-{n}", prompt=text)) for n, text in enumerate(prompts)
    ]
    database.write(1, decision_rows=rows)
    database.close()
    return home


def export(home: Path, out: Path, *options: str) -> int:
    return main(["export", "--home", str(home), "--out", str(out), *options])


def test_an_export_is_counted(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a decision, for the owner alone; prompts are counted where they are asked for."""
    out = tmp_path / "out.jsonl"
    assert export(home, out) == 0
    assert capsys.readouterr().out == f"{out}: 3 decisions\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["request_id"] for line in lines] == ["req-0", "req-1", "req-2"]
    assert not any({"prompt", "key", "session"} & line.keys() for line in lines)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert export(home, out, "--prompts") == 0
    assert capsys.readouterr().out == f"{out}: 3 decisions, 2 with their prompts\n"
    assert "And snow?" in out.read_text()
    assert export(home, out, "--json", "--tier", "full") == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "num_decisions": 0, "num_prompts": None}
    assert out.read_bytes() == b""
    assert list(tmp_path.iterdir()) in ([home, out], [out, home])


def _failing(after: int, fail: Any) -> Any:
    def exported(*_: object, **__: object) -> Iterator[Mapping[str, Any]]:
        yield from ({"request_id": str(number)} for number in range(after))
        fail()
        yield {"request_id": "never"}

    return exported


def _disk_is_full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_signal_leaves_nothing_half(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, is_there: bool
) -> None:
    """What was there before is there still, and nothing beside it; other code gets its signals back."""
    out = tmp_path / "out" / "out.jsonl"
    out.parent.mkdir()
    if is_there:
        out.write_text("before")
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ledger_export, "exported", _failing(5_000, lambda: os.kill(os.getpid(), number)))
    with pytest.raises(KeyboardInterrupt):
        export(home, out)
    assert [path.read_text() for path in out.parent.iterdir()] == ["before"] * is_there
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_full_disk_is_said(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line; what was there before is there still."""
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    monkeypatch.setattr(ledger_export, "exported", _failing(5_000, _disk_is_full))
    assert export(home, out) == 1
    assert re.fullmatch(r"tierwise: \S+ cannot be written \(.*No space left.*\n", capsys.readouterr().err)
    assert out.read_text() == "before"
    assert not list(tmp_path.glob(".*"))


def test_a_file_has_its_name_only_once_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves what was there before, or all that was written."""
    out, seen = tmp_path / "out.jsonl", []
    sync_file = os.fsync

    def noted(descriptor: int) -> None:
        seen.append((os.fstat(descriptor).st_size, out.exists()))
        sync_file(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with ledger_export.replacing(out) as file:
        file.write(b"whole")
    assert seen[0] == (5, False)
    assert seen[1][1]  # the directory, which has the name by then
    assert out.read_bytes() == b"whole"


def test_prompts_that_were_not_stored_are_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the setting that stores them; nothing is written, and nothing replaced."""
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    assert export(home, out, "--prompts", "--arm", "full") == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "none of 0 decisions has its prompt" in output.err
    assert "set `store_prompts = true` under [ledger]" in output.err
    assert out.read_text() == "before"


def test_where_no_file_can_be_put_is_said(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory, a device, a folder that is not there, and the ledger itself, also behind a link."""
    ledger = home / "ledger.sqlite"
    link = tmp_path / "link"
    link.symlink_to(ledger)
    before = ledger.read_bytes()
    for out, said in (
        (tmp_path, "is no file"),
        (Path("/dev/null"), "is no file"),
        (tmp_path / "nowhere" / "out.jsonl", "cannot be written"),
        (ledger, "is the ledger itself"),
        (link, "is the ledger itself"),
    ):
        assert export(home, out) == 1
        error = capsys.readouterr().err
        assert said in error
        assert error.endswith("--out\n")
    assert ledger.read_bytes() == before


def test_a_link_is_written_through(home: Path, tmp_path: Path) -> None:
    """The file that it leads to is replaced, and the link stays."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out.jsonl"
    link.symlink_to(tmp_path / "elsewhere" / "real.jsonl")
    assert export(home, link) == 0
    assert link.is_symlink()
    assert len((tmp_path / "elsewhere" / "real.jsonl").read_text().splitlines()) == 3
