"""`tierwise route collect` before the real gateway on mock engines: what is asked, written, resumed and told."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from router.prompts import prompt_set
from serving.commands.outcomes_file import read_outcomes
from serving.commands.route_collect import main
from serving.commands.route_collect_run import MAX_FAILURES_IN_A_ROW, Progress
from tests.fakes import Fault, MockUpstream, Script
from tests.live_gateway import LiveGateway

PROMPTS = ["--domains", "parity", "--levels", "1", "--n", "4"]


@asynccontextmanager
async def gateway(
    fast: Script, full: Script
) -> AsyncIterator[tuple[LiveGateway, MockUpstream, MockUpstream]]:
    async with (
        MockUpstream(fast) as cheap,
        MockUpstream(full) as dear,
        LiveGateway({"fast": [cheap], "full": [dear]}) as live,
    ):
        yield live, cheap, dear


async def collect(live: LiveGateway, out: Path, *argv: str) -> int:
    """Run the command in a thread, beside the gateway's loop."""
    return await asyncio.to_thread(main, ["--url", live.url, "--out", str(out), *PROMPTS, *argv])


def says(text: str) -> Script:
    return Script(tokens=(text,), prompt_tokens=7)


async def test_every_arm_gets_every_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each arm is asked each prompt once, and each answer is checked, priced and written; the JSON adds them up."""
    out = tmp_path / "outcomes.jsonl"
    async with gateway(says("It is odd."), says("It is even.")) as (live, cheap, dear):
        assert await collect(live, out, "--json", "--max-tokens", "9", "--temperature", "0.5") == 0
        asked = [request.json for request in (*cheap.requests, *dear.requests)]
    items = {item.prompt_id: item for item in prompt_set(4, seed=0, domains=["parity"], levels=[1])}
    rows = read_outcomes(out)
    assert {row.key for row in rows} == {(name, arm) for name in items for arm in ("fast", "full")}
    for row in rows:
        assert row.prompt == items[row.prompt_id].prompt
        assert row.success == (items[row.prompt_id].reference in row.answer)
        assert row.cost == pytest.approx({"fast": 0.2 * 7 + 0.8, "full": 7 + 4.0}[row.arm] / 1e6)
    assert {(body["max_tokens"], body["temperature"]) for body in asked} == {(9, 0.5)}
    told = json.loads(capsys.readouterr().out)
    assert (told["num_prompts"], told["num_new"], told["num_failed"]) == (4, 8, 0)
    num_right = sum(row.success for row in rows if row.arm == "fast")
    assert told["arms"]["fast"]["success"] == num_right / 4
    assert {tuple(one["right"]): one["n"] for one in told["joint"]} == {
        right: number for right, number in {("fast",): num_right, ("full",): 4 - num_right}.items() if number
    }


async def test_second_run_asks_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the file has is not asked again; after a cut, the cut answer alone is."""
    out = tmp_path / "outcomes.jsonl"
    async with gateway(says("odd"), says("even")) as (live, cheap, dear):
        assert await collect(live, out) == 0
        whole = out.read_bytes()
        assert await collect(live, out) == 0
        assert len(cheap.requests) + len(dear.requests) == 8
        out.write_bytes(whole[:-5])
        assert await collect(live, out, "--concurrency", "1") == 0
        assert len(cheap.requests) + len(dear.requests) == 9
    assert len({row.key for row in read_outcomes(out)}) == len(read_outcomes(out)) == 8
    shown = capsys.readouterr().out
    assert "of 4 prompts that every arm answered" in shown


async def test_refused_answers_are_missing_not_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that gets no answer leaves no outcome, makes the status 1, and is asked again by the next run."""
    out = tmp_path / "outcomes.jsonl"
    bad = Script(status=400, error={"message": "no such thing", "code": "odd"})
    async with gateway(bad, says("even")) as (live, cheap, _):
        assert await collect(live, out) == 1
        assert "4 without an answer: 400: no such thing" in capsys.readouterr().err
        assert {row.arm for row in read_outcomes(out)} == {"full"}
        cheap.script = says("odd")
        assert await collect(live, out) == 0
    assert len(read_outcomes(out)) == 8


async def test_busy_gateway_is_asked_again(tmp_path: Path) -> None:
    """429 with `retry-after` is waited out."""
    out = tmp_path / "outcomes.jsonl"
    async with gateway(says("odd"), says("even")) as (live, cheap, _):
        cheap.queue(*[Script(status=429, headers={"retry-after": "0"})])
        assert await collect(live, out, "--arms", "fast", "--concurrency", "1") == 0
    assert len(read_outcomes(out)) == 4


async def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends it with status 130 and a whole file, which the same command completes."""
    out = tmp_path / "outcomes.jsonl"
    async with gateway(says("odd"), says("even")) as (live, cheap, dear):
        dear.script = Script(tokens=("even",), fault=Fault.STALL)
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tierwise",
                "route",
                "collect",
                "--url",
                live.url,
                "--out",
                str(out),
                *PROMPTS,
            ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await live.until(lambda: out.exists() and out.read_bytes().count(b"\n") == 4, timeout_s=60)
        process.send_signal(signal.SIGINT)
        shown, told = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 130
        assert b"the same command goes on" in told
        assert b"parity" in shown
        dear.script = says("even")
        assert {row.arm for row in read_outcomes(out)} == {"fast"}
        assert await collect(live, out) == 0
        assert len(cheap.requests) == 4
    assert len(read_outcomes(out)) == 8


async def test_several_models_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outcomes of other weights under an arm's name are told."""
    out = tmp_path / "outcomes.jsonl"
    async with gateway(says("odd"), says("even")) as (live, _, _):
        assert await collect(live, out) == 0
        assert "several models" not in capsys.readouterr().err
        first, *others = out.read_text().splitlines(keepends=True)
        members = json.loads(first)
        out.write_text(json.dumps({**members, "model": "another"}) + "\n" + "".join(others))
        assert await collect(live, out) == 0
    assert f"the answers of {members['arm']} come from several models (another, " in capsys.readouterr().err


async def test_unknown_arm_names_the_arms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gateway's own words come through."""
    async with gateway(says("odd"), says("even")) as (live, _, _):
        assert await collect(live, tmp_path / "o.jsonl", "--arms", "slow") == 1
    assert "There is no arm 'slow'; the arms are fast, full." in capsys.readouterr().err


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gateway that is not there is told with its URL, and leaves no outcome."""
    assert main(["--url", "http://127.0.0.1:9", "--out", str(tmp_path / "o.jsonl")]) == 1
    assert "http://127.0.0.1:9: no gateway answers there" in capsys.readouterr().err


def test_missing_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is named and not there is wrong use."""
    out = str(tmp_path / "o.jsonl")
    assert main(["--out", out, "--api-key-env", "TIERWISE_TEST_UNSET_KEY"]) == 2
    assert main(["--out", out, "--api-key-file", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("tierwise: ") == 2


@pytest.mark.parametrize(
    "argv", [["--domains", "sumz"], ["--levels", "3"], ["--n", "0"], ["--seed", "-1"], ["--arms", ","], []]
)
def test_wrong_use(argv: list[str], tmp_path: Path) -> None:
    """Wrong options end with status 2 before anything is opened."""
    with pytest.raises(SystemExit, match="2"):
        main([*argv, *(["--out", str(tmp_path / "o.jsonl")] if argv else [])])
    assert not list(tmp_path.iterdir())


def test_hopeless() -> None:
    """A gateway that refuses everything is given up on."""
    assert Progress(num_failed_in_a_row=MAX_FAILURES_IN_A_ROW).is_hopeless
    assert not Progress(num_failed_in_a_row=MAX_FAILURES_IN_A_ROW - 1).is_hopeless
