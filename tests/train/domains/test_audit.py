"""The gate: a domain trains only with a passing record of its present source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from train.domains import audit, catalog
from train.domains.audit import (
    Failure,
    Record,
    Tally,
    UnauditedError,
    audited,
    baseline_corrected,
    source_sha256,
)
from train.domains.auditing.intervals import lower_bound

KNOWN_BAD = {
    "coin_flip": "constant",
    "game_of_life_halting": "constant",
    "syllogism": "constant",
    "circuit_logic": "constant",
    "prime_factorization": "crash",
    "boxnet": "oracle",
    "graph_color": "oracle",
    "propositional_logic": "oracle",
    "rubiks_cube": "oracle",
    "rush_hour": "oracle",
}
"""Tasks of reasoning-gym that were known not to be trusted, and the probe that must have caught each."""


def test_the_known_bad_tasks_were_caught() -> None:
    """Each is in the quarantine for the reason that was known, found by a probe; `polynomial_equations` is not, for
    its "0" earns a third, which a baseline takes off."""
    held = json.loads(audit.QUARANTINE.read_text())
    for name, probe in KNOWN_BAD.items():
        assert any(reason.startswith(f"{probe}: ") for reason in held[name]), (name, held.get(name))
        with pytest.raises(UnauditedError, match=f"{name}: .*{probe}"):
            audited([name])
    assert 0.25 < audit.records()["polynomial_equations"].baseline < 0.5


def test_ninety_tasks_of_reasoning_gym_may_train() -> None:
    """After quarantine at least ninety are left, and their records are of the source as it is."""
    from train.domains.reasoning_gym_levels import NAMES

    may_train = set(audit.passed())
    assert len(may_train & set(NAMES)) >= 90


def test_the_quarantine_is_what_the_records_say() -> None:
    """The two committed files agree, and no record is of a domain that is gone."""
    held = json.loads(audit.QUARANTINE.read_text())
    assert set(held) == {name for name, record in audit.records().items() if not record.is_passed}
    assert set(audit.records()) <= set(catalog.domains())


def test_references_pass_and_attacks_do_not() -> None:
    """Over all audited domains: every reference of a domain that may train was accepted, and of attacks less than
    one in a thousand, by chance."""
    records = [audit.records()[name] for name in audit.passed()]
    assert all(record.right.num_accepted == record.right.num_answers > 0 for record in records)
    attacks = [record.adversarial for record in records]
    accepted, given = (sum(t.num_accepted for t in attacks), sum(t.num_answers for t in attacks))
    assert accepted / given < 0.001


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of our own, in place of the committed ones."""
    path = tmp_path / "audit.json"
    real = audit.records
    monkeypatch.setattr(audit, "records", lambda path=path: real(path))
    monkeypatch.setattr(audit.records, "cache_clear", real.cache_clear, raising=False)
    return path


def record_of(name: str, **fields: object) -> Record:
    made = Record(domain=name, source_sha256=source_sha256(catalog.get(name)), failures=())
    return replace(made, **fields)  # type: ignore[arg-type]


def test_no_record_no_training(files: Path) -> None:
    """A domain without a record, with one of other source, or with a failure is refused, by name and reason."""
    audit.write(
        [
            record_of("gcd"),
            record_of("lcm", source_sha256="0" * 64),
            record_of("maze", failures=(Failure("echo", "it pays"),)),
        ],
        path=files,
        quarantine=files.with_name("quarantine.json"),
    )
    assert [domain.name for domain in audited(["gcd"])] == ["gcd"]
    with pytest.raises(
        UnauditedError, match=r"lcm: its source has changed.*maze: echo: it pays.*sudoku: it was never"
    ):
        audited(["gcd", "lcm", "maze", "sudoku"])
    with pytest.raises(catalog.UnknownDomainError):
        audited(["nothing"])
    assert json.loads(files.with_name("quarantine.json").read_text()) == {"maze": ["echo: it pays"]}


def test_records_survive_being_written(files: Path) -> None:
    """What is written is read as it was; a second write keeps the first."""
    whole = record_of(
        "gcd", num_items=200, baseline=0.21, constant="1", right=Tally(200, 200), wrong=Tally(1, 300)
    )
    quarantine = files.with_name("quarantine.json")
    audit.write([whole], path=files, quarantine=quarantine)
    audit.write([record_of("lcm")], path=files, quarantine=quarantine)
    assert audit.records(files) == {"gcd": whole, "lcm": record_of("lcm")}


def test_a_corrected_score_is_zero_at_the_baseline_and_one_at_the_top() -> None:
    """(score − b)/(1 − b): .71 of which .71 is for a constant is nothing; half the way to 1 is one half."""
    assert baseline_corrected(0.71, 0.71) == 0.0
    assert baseline_corrected(1.0, 0.71) == 1.0
    assert baseline_corrected(0.6, 0.2) == pytest.approx(0.5)
    assert baseline_corrected(0.0, 0.5) == -1.0
    assert baseline_corrected(1.0, 1.0) == 0.0


def test_wilsons_lower_bound_by_hand() -> None:
    """For 62 of 100 at z = 2: (.62 + .02 − 2·√(.62·.38/100 + 4/40000))/(1 + .04) = .5201."""
    assert lower_bound(0.62, 100, z=2.0) == pytest.approx(0.52008, abs=1e-5)
    assert lower_bound(0.0, 10) == 0.0
    assert lower_bound(0.5, 0) == 0.0
    assert lower_bound(1.0, 10**9) == pytest.approx(1.0)
