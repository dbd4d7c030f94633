"""Tests of serving.commands.ledger and its views."""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from serving.commands.ledger import EXAMPLES, main, since
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.records import Usage
from serving.ledger.tables import attempt_row, decision_row
from tests import ledger_records

REPOSITORY = Path(__file__).parents[2]
DECISION = replace(ledger_records.DECISION, request_id="req-0")
ATTEMPT = replace(
    ledger_records.ATTEMPT, request_id="req-0", usage=Usage(prompt_tokens=12, completion_tokens=34)
)


class Writer:
    """Writes requests into a ledger as a gateway would."""

    def __init__(self, home: Path) -> None:
        self._database = LedgerDatabase(ledger_url(None, home))
        self._number = 0

    def write(self, **changes: object) -> None:
        self._number += 1
        request_id = f"req-{self._number}"
        self._database.write(
            self._number,
            decision_rows=[decision_row(replace(DECISION, request_id=request_id, **changes))],
            attempt_rows=[attempt_row(replace(ATTEMPT, request_id=request_id), recorded_at=2_000.0)],
        )

    def close(self) -> None:
        self._database.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    opened = Writer(tmp_path)
    yield opened
    opened.close()


def squeezed(output: str) -> list[str]:
    """The lines, with one space where there are several."""
    return [" ".join(line.split()) for line in output.splitlines()]


def run_on_terminal(home: Path, *arguments: str, columns: int) -> str:
    """What the command prints to a terminal of that width, without escape codes."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    command = [sys.executable, "-m", "tierwise", "ledger", *arguments, "--home", str(home)]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm"
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=terminal, stdin=terminal
    ) as process:
        os.close(terminal)
        output = b""
        while True:
            try:
                chunk = os.read(controller, 65_536)
            except OSError:  # how Linux says that the terminal is closed
                break
            if not chunk:
                break
            output += chunk
        os.close(controller)
        assert process.wait(timeout=30) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", output.decode())


def test_tail_shows_the_last_requests(
    tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each, oldest first, with the reason or, where it failed, the error's code."""
    for _ in range(3):
        writer.write()
    writer.write(status=502, error_code="upstream_reset", num_attempts=2)
    assert main(["tail", "-n", "2", "--home", str(tmp_path)]) == 0
    heading, first, second = squeezed(capsys.readouterr().out)
    assert heading == "time status endpoint model arm reason ttft total tokens cost request"
    assert first[9:] == "200 chat auto fast best_value 250 ms 1.25 s 12+34 0.002000 req-3"
    assert second[9:].startswith("502 chat auto fast ×2 ")
    assert "upstream_reset" in second


def test_tail_in_json_is_one_object_a_line(
    tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    """For jq: numbers as numbers, time in UTC."""
    writer.write(created_at=1_700_000_000.5)
    assert main(["tail", "--json", "--home", str(tmp_path)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    request = json.loads(line)
    assert request["time"] == "2023-11-14T22:13:20.500+00:00"
    assert (request["request_id"], request["completion_tokens"], request["cost"]) == ("req-1", 34, 0.002)


def test_what_clients_wrote_cannot_move_the_cursor(
    tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model's name with escape codes, markup and line ends is shown, not obeyed."""
    writer.write(model="\x1b[2J[red]\nx")
    assert main(["tail", "--home", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert len(output.splitlines()) == 2
    assert r"\x1b[2J[red]\nx" in output


def test_follow_goes_on_with_what_is_written(tmp_path: Path, writer: Writer) -> None:
    """First the last requests, then each new one, once; Ctrl-C ends it."""
    writer.write()
    command = [
        sys.executable,
        "-m",
        "tierwise",
        "ledger",
        "tail",
        "--follow",
        "--json",
        "--home",
        str(tmp_path),
    ]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["request_id"] == "req-1"
            writer.write()
            writer.write()
            assert json.loads(process.stdout.readline())["request_id"] == "req-2"
            assert json.loads(process.stdout.readline())["request_id"] == "req-3"
            time.sleep(0.6)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert output == ""
    assert process.returncode == 130


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path, writer: Writer) -> None:
    """`tierwise ledger tail | head -1` ends quietly."""
    for _ in range(3):
        writer.write()
    command = [sys.executable, "-m", "tierwise", "ledger", "tail", "--json", "--home", str(tmp_path)]
    reader, stdout = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False
    )
    os.close(stdout)
    assert (done.returncode, done.stderr) == (0, b"")


def test_summary_adds_up(tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each tier, arm and reason, the total, and the attempts by outcome."""
    writer.write()
    writer.write()
    writer.write(tier="full", arm="full", reason="client_model", total_s=12.0)
    assert main(["summary", "--home", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    rows = squeezed(output)
    assert rows[0] == "requests in the whole ledger"
    assert "fast fast best_value 2 66.7% 24 0 68 0.004000 1.25 s 1.25 s 250 ms 250 ms 0 0 0" in rows
    assert "full full client_model 1 33.3% 12 0 34 0.002000 12.0 s 12.0 s 250 ms 250 ms 0 0 0" in rows
    assert "total 3 100.0% 36 0 102 0.006000 1.25 s 12.0 s 250 ms 250 ms 0 0 0" in rows
    assert output.endswith("attempts: 3 success\n")


def test_summary_takes_a_span(tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    """Only requests that arrived since then; where there were none, that is said."""
    writer.write(created_at=time.time() - 7_200)
    writer.write(created_at=time.time() - 60)
    assert main(["summary", "--since", "1h", "--json", "--home", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["num_requests"] == 1
    assert main(["summary", "--since", "1s", "--home", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("no requests since ")


def test_since_reads_spans_and_dates() -> None:
    """`1.5h` ago, and a date with and without its zone; anything else is refused with an example."""
    assert since("1.5h") == pytest.approx(time.time() - 5_400, abs=5)
    assert since("2d") == pytest.approx(time.time() - 172_800, abs=5)
    assert since("2023-11-14T22:13:20Z") == 1_700_000_000
    assert since("2023-11-14T22:13:20") == time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))
    for wrong in ("yesterday", "-1h", "1y", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="write 30m, 1h, 7d"):
            since(wrong)


@pytest.mark.parametrize("columns", [80, 110, 200])
def test_tables_fit_the_terminal(tmp_path: Path, writer: Writer, columns: int) -> None:
    """A narrow terminal gets fewer columns, whole ones; the summary says what was left out."""
    writer.write()
    writer.write(tier="full", arm="full")
    for verb in ("tail", "summary"):
        output = run_on_terminal(tmp_path, verb, columns=columns)
        assert all(len(line) <= columns for line in output.splitlines() if not line.startswith("left out"))
        assert "…" not in output
        assert "best_value" in output
        assert ("left out for width: cached" in output) is (verb == "summary" and columns < 160)


@pytest.mark.parametrize("verb", ["tail", "summary"])
def test_no_ledger_is_one_line_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Exit status 1, nothing on standard output, no traceback."""
    assert main([verb, "--home", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"tierwise: no ledger at \S+ledger\.sqlite; .*--home or --url\n", output.err)


def test_a_url_beats_the_home_and_its_password_is_not_shown(
    tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--url` names any database; what is said of it leaves the password out."""
    writer.write()
    assert main(["tail", "--home", "/nowhere", "--url", f"sqlite:///{tmp_path}/ledger.sqlite"]) == 0
    assert "req-1" in capsys.readouterr().out
    for url in ("nosuchbase://u:hunter2@h/n", "hunter2"):
        assert main(["tail", "--url", url]) == 1
        output = capsys.readouterr()
        assert "hunter2" not in output.out + output.err


def test_help_teaches_by_examples_that_parse(
    tmp_path: Path, writer: Writer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each help shows examples, and each example runs."""
    monkeypatch.chdir(tmp_path)  # where exports go
    writer.write(prompt="What is rain?")
    for verb, examples in EXAMPLES.items():
        with pytest.raises(SystemExit) as ended:
            main([*verb.split(), "--help"])
        assert ended.value.code == 0
        assert examples.strip() in capsys.readouterr().out
        for command in re.findall(r"tierwise ledger ([^|\n]+)", examples):
            arguments = re.sub(r"\s{2,}.*|--follow|--url \S+", "", command).split()
            assert main([*arguments, "--home", str(tmp_path)]) == 0, command
