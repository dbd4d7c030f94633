"""An export from PostgreSQL is, to the byte, what it would be from SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from serving.commands.ledger import main
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.tables import attempt_row, decision_row
from tests.ledger import postgresql
from tests.ledger_records import ATTEMPT, DECISION

PROMPTS = ("What is rain?", None, 'Und Schnee: 雪?\n"it"\t\\ 🌧')


@dataclass
class Ledgers:
    """The same requests in two databases."""

    url: str
    """Of PostgreSQL."""
    home: Path
    """With SQLite's."""

    def export(self, out: Path, *options: str) -> int:
        """From PostgreSQL."""
        return main(["export", "--url", self.url, "--home", str(self.home), "--out", str(out), *options])

    def export_sqlite(self, out: Path, *options: str) -> int:
        return main(["export", "--home", str(self.home), "--out", str(out), *options])


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    """More rows than are read at once, a second apart; three have prompts in turn, and every seventh is full's."""
    home = tmp_path_factory.mktemp("ledger") / "home"
    with postgresql.running() as url:
        for each in (ledger_url(url, home), ledger_url(None, home)):
            fill(each)
        yield Ledgers(url, home)


def fill(url: URL) -> None:
    decided = [
        replace(
            DECISION,
            request_id=f"req-{number}",
            created_at=1_767_225_600.125 + number,
            prompt=PROMPTS[number % len(PROMPTS)],
            tier="fast" if number % 7 else "full",
            arm="fast" if number % 7 else "full",
            cost=0.1 + 0.2 * number,
            candidates='[{"arm": "fast", "excluded": null}]',
        )
        for number in range(2_500)
    ]
    attempted = [
        attempt_row(replace(ATTEMPT, request_id=each.request_id), recorded_at=1.0) for each in decided
    ]
    database = LedgerDatabase(url)
    database.write(1, decision_rows=[decision_row(each) for each in decided], attempt_rows=attempted)
    database.close()


SELECTIONS: dict[str, tuple[str, ...]] = {
    "everything": (),
    "prompts": ("--prompts",),
    "a tier's prompts": ("--prompts", "--tier", "full"),
    "a span of time": ("--since", "2026-01-01T00:10:00+00:00", "--until", "2026-01-01T00:11:00+00:00"),
}


@pytest.mark.parametrize("name", list(SELECTIONS))
def test_it_is_sqlite_s(ledgers: Ledgers, tmp_path: Path, name: str) -> None:
    """Numbers, truth values, nulls, other scripts and the order of rows are the same, whatever is selected."""
    ours, theirs = tmp_path / "postgresql.jsonl", tmp_path / "sqlite.jsonl"
    assert ledgers.export(ours, *SELECTIONS[name]) == 0
    assert ledgers.export_sqlite(theirs, *SELECTIONS[name]) == 0
    assert ours.read_bytes() == theirs.read_bytes()
    assert ours.stat().st_size > 0


def test_what_is_in_it(ledgers: Ledgers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts as they were written where they are asked for, none otherwise, and their number is said."""
    out = tmp_path / "out.jsonl"
    assert ledgers.export(out) == 0
    assert capsys.readouterr().out == f"{out}: 2,500 decisions\n"
    assert not any("prompt" in json.loads(line) for line in out.read_text().splitlines())
    assert ledgers.export(out, "--prompts") == 0
    assert capsys.readouterr().out == f"{out}: 2,500 decisions, 1,667 with their prompts\n"
    first = [json.loads(line) for line in out.read_text().splitlines()[:3]]
    assert tuple(record["prompt"] for record in first) == PROMPTS
    assert [record["tier"] for record in first] == ["full", "fast", "fast"]


def test_no_prompts_are_refused(ledgers: Ledgers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on SQLite: nothing is written, and nothing replaced."""
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    assert ledgers.export(out, "--prompts", "--tier", "none") == 1
    assert "none of 0 decisions has its prompt" in capsys.readouterr().err
    assert out.read_text() == "before"


def test_a_database_without_a_ledger(
    ledgers: Ledgers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is said by its URL, as is one that cannot be reached."""
    base = ledgers.url.rpartition("/")[0]
    assert main(["export", "--url", f"{base}/template1", "--out", str(tmp_path / "out")]) == 1
    assert "holds no ledger" in capsys.readouterr().err
    assert main(["export", "--url", f"{base}/nowhere", "--out", str(tmp_path / "out")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
