"""`tierwise bench budget`: does a running gateway hold its share while requests become twice as hard?

A gateway of its own on a mock upstream is told to hold a share of the full tier. Requests come by a Poisson process;
at one moment they become twice as hard. Who answered is read off each answer, and judged by `loadtests.holding`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

from loadtests.alarms import Alarms
from loadtests.argument_types import above_zero, share
from loadtests.arrivals import poisson_arrivals
from loadtests.child_process import ChildError
from loadtests.difficulty import prompt_of
from loadtests.gateway_process import gateway, mock_upstream, until_ready
from loadtests.holding import LIMIT, MAX_SETTLE_S, TOLERANCE, WINDOW_S, Answered, Holding, holding
from loadtests.prompts import chat_body
from loadtests.stream_client import ChatClient
from loadtests.timeline import Timeline

DIFFICULTY: Final = 1.0
"""Hard tasks in a prompt, on average, before they become twice as many."""
TIMEOUT_S: Final = 30.0
ABOUT: Final = f"""\
Hold a share of the full tier through requests that become twice as hard, on a gateway that is started for it. Exit
status 1 where the share of the last {WINDOW_S:g} s is not within {TOLERANCE:g} of the target {MAX_SETTLE_S:g} s after
the change, or is further off than {LIMIT:g} after that.
"""


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench budget argv…`. 0 held, 1 not held or not measured."""
    args = _parser().parse_args(argv)
    try:
        answers, num_errors = _measured(args)
    except ChildError as error:
        print(f"tierwise bench budget: {error}", file=sys.stderr)
        return 1
    until_s = args.before + args.after
    judged = holding(
        answers, target=args.target, changed_at_s=args.before, until_s=until_s, window_s=args.window
    )
    told = {
        "target": args.target,
        "rate": args.rate,
        "num_answers": len(answers),
        "num_errors": num_errors,
        "is_held": judged.is_held,
        **dataclasses.asdict(judged),
    }
    print(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() if args.json else _line(told, judged))
    return 0 if judged.is_held and not num_errors else 1


def _measured(args: argparse.Namespace) -> tuple[list[Answered], int]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwise-bench-")))
        upstream_url, _ = stack.enter_context(
            mock_upstream(ttft_ms=20, itl_ms=2, num_tokens=8, directory=directory)
        )
        held = {"budget": {"metric": "full_share", "target": args.target}}
        url, child = stack.enter_context(
            gateway(upstream_url=upstream_url, directory=directory, settings=held)
        )
        asyncio.run(until_ready(url, child=child, log=directory / "gateway.log"))
        return uvloop.run(_load(args, url))


async def _load(args: argparse.Namespace, url: str) -> tuple[list[Answered], int]:
    """Send every request at its moment, and wait for the last answer."""
    rng, loop = random.Random(args.seed), asyncio.get_running_loop()
    offsets = poisson_arrivals(args.rate, args.before + args.after, rng)
    alarms = Alarms(loop)
    client = ChatClient(url, alarms=alarms, max_connections=256, timeout_s=TIMEOUT_S)
    ended: list[tuple[float, Timeline]] = []
    is_over = asyncio.Event()
    began_s = loop.time() + 0.1

    def send(offset_s: float, body: bytes) -> None:
        def on_end(timeline: Timeline) -> None:
            ended.append((offset_s, timeline))
            if len(ended) == len(offsets):
                is_over.set()

        request = client.request(body)
        client.send(request, scheduled_s=began_s + offset_s, is_streaming=False, on_end=on_end)

    for offset_s in offsets:
        difficulty = DIFFICULTY * (2 if offset_s >= args.before else 1)
        body = chat_body(
            prompt_of(rng, difficulty=difficulty), model="auto", max_tokens=8, is_streaming=False
        )
        alarms.call_at(began_s + offset_s, lambda at=offset_s, body=body: send(at, body))
    try:
        if offsets:
            await is_over.wait()
    finally:
        await client.close()
        alarms.close()
    answers = [
        Answered(at_s=at_s, is_full=timeline.tier == "full")
        for at_s, timeline in sorted(ended, key=lambda each: each[0])
        if timeline.error is None
    ]
    return answers, len(ended) - len(answers)


def _line(told: dict[str, Any], judged: Holding) -> str:
    verdict = "held" if judged.is_held else "missed"
    settled = "never settled"
    if judged.settle_s is not None and judged.worst_after is not None:
        settled = f"settled after {judged.settle_s:g} s, then within ±{judged.worst_after:.3f}"
    return (
        f"{verdict}: target {told['target']:g}, {told['num_answers']} answers at {told['rate']:g}/s, "
        f"{told['num_errors']} errors; after the change a share of {judged.share:.3f}, "
        f"peak {judged.peak:+.3f}, {settled}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise bench budget",
        description=ABOUT,
        epilog="example:\n  tierwise bench budget --rate 5\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rate", type=above_zero, default=5.0, metavar="R", help="requests/s (default %(default)g)"
    )
    parser.add_argument("--target", type=share, default=0.3, metavar="X", help="share (default %(default)g)")
    parser.add_argument(
        "--before",
        type=above_zero,
        default=240.0,
        metavar="S",
        help="s before the change (default %(default)g)",
    )
    parser.add_argument(
        "--after", type=above_zero, default=480.0, metavar="S", help="s after it (default %(default)g)"
    )
    parser.add_argument(
        "--window",
        type=above_zero,
        default=WINDOW_S,
        metavar="S",
        help="of the trailing share (default %(default)g)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of arrivals and prompts (default 0)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser
