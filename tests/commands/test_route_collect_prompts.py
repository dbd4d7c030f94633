"""`tierwise route collect --prompts`: the shipped records and a file of one's own, before mock engines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from serving.commands.outcomes_file import read_outcomes
from serving.commands.route_collect import main
from tests.fakes import MockUpstream, Script
from tests.live_gateway import LiveGateway


def questions(path: Path) -> Path:
    records = [
        {"domain": "legs", "level": level, "prompt": f"How many legs has a {animal}?", "answer": answer}
        for level, (animal, answer) in enumerate(
            [("horse", "4"), ("bird", "2"), ("snake", "0"), ("fly", "6")]
        )
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


async def test_a_file_is_asked_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each arm is asked each prompt as it stands in the file, once; levels beyond the own ones count as well."""
    out = tmp_path / "outcomes.jsonl"
    async with (
        MockUpstream(Script(tokens=("It has 4 legs.",))) as cheap,
        MockUpstream(Script(tokens=("6",))) as dear,
        LiveGateway({"fast": [cheap], "full": [dear]}) as live,
    ):
        argv = ["--url", live.url, "--out", str(out), "--prompts", str(questions(tmp_path / "q.jsonl"))]
        assert await asyncio.to_thread(main, [*argv, "--n", "3"]) == 0
        assert await asyncio.to_thread(main, argv) == 0
        asked = [request.json["messages"][-1]["content"] for request in cheap.requests]
        assert asked == [f"How many legs has a {name}?" for name in ("horse", "bird", "snake", "fly")]
        assert len(dear.requests) == 4
    rows = read_outcomes(out)
    assert {(row.arm, row.level) for row in rows if row.success} == {("fast", 0), ("full", 3)}
    assert "different prompts" not in capsys.readouterr().err


async def test_shipped_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`reasoning-gym` needs no file; domains and levels choose among them, and a shortage is told."""
    out = tmp_path / "outcomes.jsonl"
    async with (
        MockUpstream(Script(tokens=("4",))) as only,
        LiveGateway({"full": [only]}) as live,
    ):
        argv = ["--url", live.url, "--out", str(out), "--prompts", "reasoning-gym", "--domains", "gcd,maze"]
        assert await asyncio.to_thread(main, [*argv, "--levels", "0,2", "--n", "50"]) == 0
    rows = read_outcomes(out)
    assert {(row.domain, row.level) for row in rows} == {(d, n) for d in ("gcd", "maze") for n in (0, 2)}
    assert len(rows) == 32
    assert "have 32 different prompts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--prompts", "reasoning-gym", "--domains", "sums"], "no domain 'sums'; there are aiw, "),
        (["--prompts", "reasoning-gym", "--levels", "3"], "no level 3; there are 0, 1, 2"),
        (["--prompts", "reasoning-gym", "--seed", "1"], "--seed makes own prompts"),
    ],
)
def test_options_that_do_not_fit(
    argv: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are wrong use, before a file is opened."""
    with pytest.raises(SystemExit, match="2"):
        main([*argv, "--out", str(tmp_path / "o.jsonl")])
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_faulty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line is told, and no outcomes file is made."""
    path = questions(tmp_path / "q.jsonl")
    path.write_text(path.read_text() + "{}\n")
    assert main(["--prompts", str(path), "--out", str(tmp_path / "o.jsonl")]) == 1
    assert "q.jsonl:5: no prompt: no 'domain'" in capsys.readouterr().err
    assert not (tmp_path / "o.jsonl").exists()
