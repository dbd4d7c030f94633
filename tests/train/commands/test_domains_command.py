"""`tierwise train domains` and `tierwise train sandbox`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from train.commands import domains, sandbox
from train.domains import audit


def test_the_list_says_what_may_train(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON every domain has its family, levels, and the reason where it may not train."""
    assert domains.main(["list", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["coin_flip"]["may_train"] is False
    assert "constant" in listed["coin_flip"]["refusal"]
    assert listed["gcd"]["num_levels"] >= 3
    assert domains.main(["list", "--family", "reasoning"]) == 0
    assert "may train" in capsys.readouterr().out


def test_one_domain_is_shown_and_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    """`show` has the audit, `sample` items with what passes; a level that is not there is wrong use."""
    assert domains.main(["show", "coin_flip"]) == 0
    assert "may not train" in capsys.readouterr().out
    assert domains.main(["sample", "chain_sum", "--level", "0", "--count", "2", "--json"]) == 0
    sampled = json.loads(capsys.readouterr().out)
    assert [row["item"]["index"] for row in sampled] == [0, 1]
    assert sampled[0]["reference"]["messages"][0]["text"] == sampled[0]["item"]["answer"]
    assert domains.main(["sample", "chain_sum"]) == 0
    assert "chain_sum/0/0-0" in capsys.readouterr().out
    assert domains.main(["sample", "chain_sum", "--level", "9"]) == 2
    assert domains.main(["show", "chian_sum"]) == 1
    assert "did you mean 'chain_sum'" in capsys.readouterr().err


def test_an_audit_writes_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records are kept as they are made; a failed domain makes the status 1."""
    real = audit.write
    path, quarantine = tmp_path / "audit.json", tmp_path / "quarantine.json"
    monkeypatch.setattr(audit, "write", lambda made: real(made, path=path, quarantine=quarantine))
    assert domains.main(["audit", "gcd", "syllogism", "--items", "150", "--jobs", "1"]) == 1
    assert set(json.loads(path.read_text())) == {"gcd", "syllogism"}
    assert list(json.loads(quarantine.read_text())) == ["syllogism"]
    assert "1 of 2 passed" in capsys.readouterr().out


def test_an_export_is_the_same_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A packed file holds what the plain one does, and is the same to the bit; what may not train is refused."""
    plain, packed, again = (tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.gz"))
    for path in (plain, packed, again):
        assert domains.main(["export", "gcd", "lcm", "--count", "2", "--out", str(path)]) == 0
    assert packed.read_bytes() == again.read_bytes()
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    records = [json.loads(line) for line in plain.read_text().splitlines()]
    assert [record["level"] for record in records] == [0, 0, 1, 1, 2, 2] * 2
    assert set(records[0]) == {"domain", "level", "prompt", "answer"}
    capsys.readouterr()
    assert domains.main(["export", "gcd", "--count", "1", "--out", str(plain), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_records"] == 3
    assert domains.main(["export", "coin_flip", "--out", str(tmp_path / "d")]) == 1
    assert "coin_flip" in capsys.readouterr().err
    assert domains.main(["export", "gcd", "--count", "0", "--out", str(tmp_path / "d")]) == 2
    assert not (tmp_path / "d").exists()


def test_the_sandbox_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 0 where something isolates; the JSON names every way that was tried."""
    status = sandbox.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert status == (0 if found["isolates"] else 1)
    assert "sandlock" in found["trials"][0]["way"]
    assert sandbox.main([]) == status
