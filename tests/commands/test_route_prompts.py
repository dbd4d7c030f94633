"""`tierwise route prompts`: what `collect` would ask, in a file, without what stands elsewhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from router.prompts import prompt_set
from serving.commands import route

OPTIONS = ["prompts", "--n", "12", "--seed", "3", "--domains", "sums,plurals"]
ITEMS = prompt_set(12, seed=3, domains=("sums", "plurals"))


def test_prompts_without_those_of_another_file(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Packed twice they are the same bytes; what a file of outcomes has is left out; `-` is standard output."""
    known = tmp_path / "outcomes.jsonl"
    known.write_text("".join(json.dumps({"prompt": item.prompt, "arm": "fast"}) + "\n" for item in ITEMS[:5]))
    out, again = tmp_path / "out.jsonl.gz", tmp_path / "again.jsonl.gz"
    for path in (out, again):
        assert route.main([*OPTIONS, "--without", str(known), "--out", str(path)]) == 0
    assert out.read_bytes() == again.read_bytes()
    assert [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()] == [
        {"domain": item.domain, "level": item.level, "prompt": item.prompt} for item in ITEMS[5:]
    ]
    assert b"7 prompts" in capsysbinary.readouterr().err
    assert route.main([*OPTIONS, "--out", "-"]) == 0
    assert [json.loads(line)["prompt"] for line in capsysbinary.readouterr().out.splitlines()] == [
        item.prompt for item in ITEMS
    ]


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A domain that there is not, a file without prompts, and a directory that there is not: nothing is written."""
    out = tmp_path / "out.jsonl"
    with pytest.raises(SystemExit) as ended:
        route.main(["prompts", "--domains", "magic", "--out", str(out)])
    assert ended.value.code == 2
    (tmp_path / "known.jsonl").write_text('{"prompt": "a"}\n{"text": "b"}\n')
    assert route.main([*OPTIONS, "--without", str(tmp_path / "known.jsonl"), "--out", str(out)]) == 1
    assert route.main([*OPTIONS, "--out", str(tmp_path / "none" / "out.jsonl")]) == 1
    assert not out.exists()
    said = capsys.readouterr().err
    assert all(each in said for each in ("no domain 'magic'", "known.jsonl:2: no object", "No such file"))
