"""`tierwise bench gateway`: what the gateway adds to each request.

The same load runs against a mock upstream directly and through the gateway, in short alternating blocks of one
run, so that noise of the machine falls on both (`loadtests.blocks`). Arrivals follow a schedule and never wait for
answers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
import uvloop
from rich.console import Console

from loadtests.alarms import Alarms
from loadtests.blocks import Lane, plan_blocks
from loadtests.child_process import ChildError
from loadtests.comparison import LaneClient, LoadResult, run_blocks
from loadtests.fetch import FetchError, fetch
from loadtests.gateway_options import NUM_PROMPTS, GatewayBenchOptions, parse_options
from loadtests.gateway_process import gateway, mock_upstream, until_ready
from loadtests.gateway_report import GatewayReport, Spent, make_report
from loadtests.gateway_tables import render
from loadtests.machine import this_machine
from loadtests.measures import measures
from loadtests.process_usage import Usage, process_usage
from loadtests.prompts import render_prompts
from loadtests.stream_client import ChatClient

TIMEOUT_S = 30.0
"""After its moment, an unfinished request counts as failed."""
WIDTH = 150
"""Of the tables, where no terminal says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The two servers; a process is None where it is not known."""

    gateway_url: str
    upstream_url: str
    gateway_pid: int | None = None
    upstream_pid: int | None = None


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench gateway argv…`."""
    options = parse_options(argv)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwise-bench-")))
        try:
            target = _target(options, stack, directory)
            report = uvloop.run(_measure(options, target))
        except (ChildError, FetchError, ProcessLookupError, ValueError) as error:
            print(f"tierwise bench gateway: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(orjson.dumps(dataclasses.asdict(report), option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(render(report))
    return 1 if report.num_errors else 0


def _target(options: GatewayBenchOptions, stack: ExitStack, directory: Path) -> _Target:
    """What is to be measured: started here, and ended with the stack, unless it runs already."""
    if options.url is not None and options.upstream_url is not None:
        return _Target(gateway_url=options.url, upstream_url=options.upstream_url, gateway_pid=options.pid)
    pace = {"ttft_ms": options.ttft_ms, "itl_ms": options.itl_ms}
    upstream_url, mock = stack.enter_context(
        mock_upstream(num_tokens=options.tokens, directory=directory, **pace)
    )
    gateway_url, child = stack.enter_context(gateway(upstream_url=upstream_url, directory=directory))
    asyncio.run(until_ready(gateway_url, child=child, log=directory / "gateway.log"))
    return _Target(
        gateway_url=gateway_url, upstream_url=upstream_url, gateway_pid=child.pid, upstream_pid=mock.pid
    )


async def _measure(options: GatewayBenchOptions, target: _Target) -> GatewayReport:
    plan = plan_blocks(options.shape)
    load_average = os.getloadavg()[0]
    alarms = Alarms(asyncio.get_running_loop())
    clients = _clients(options, target, alarms)
    try:
        lanes = await _lanes(options, target, clients)
        await run_blocks([block for block in plan if block.pair is None], lanes=lanes, alarms=alarms)
        before = _usages(target)
        result = await run_blocks(
            [block for block in plan if block.pair is not None], lanes=lanes, alarms=alarms
        )
        after = _usages(target)
    finally:
        for client in clients.values():
            await client.close()
        alarms.close()
    spent = {name: Spent(before=before[name], after=after[name]) for name in before}
    return _report(options, result, spent, load_average)


def _clients(options: GatewayBenchOptions, target: _Target, alarms: Alarms) -> dict[Lane, ChatClient]:
    urls = {Lane.DIRECT: target.upstream_url, Lane.GATEWAY: target.gateway_url}
    keys = {Lane.GATEWAY: options.api_key}
    return {
        lane: ChatClient(
            url,
            alarms=alarms,
            max_connections=options.connections,
            timeout_s=TIMEOUT_S,
            api_key=keys.get(lane),
        )
        for lane, url in urls.items()
    }


async def _lanes(
    options: GatewayBenchOptions, target: _Target, clients: dict[Lane, ChatClient]
) -> dict[Lane, LaneClient]:
    models = {Lane.DIRECT: await _first_model(target.upstream_url), Lane.GATEWAY: options.model}
    prompts = render_prompts(num_prompts=NUM_PROMPTS, num_chars=options.prompt_chars, seed=options.seed)
    return {
        lane: LaneClient(client, prompts=prompts, model=models[lane], max_tokens=options.tokens)
        for lane, client in clients.items()
    }


async def _first_model(upstream_url: str) -> str:
    """What the upstream calls its model.

    Raises:
        FetchError: it does not list any.
    """
    listing = await fetch(f"{upstream_url.rstrip('/')}/v1/models", timeout_s=5.0)
    try:
        return str(orjson.loads(listing.body)["data"][0]["id"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        raise FetchError(f"{upstream_url}/v1/models lists no model (status {listing.status})") from None


def _usages(target: _Target) -> dict[str, Usage]:
    pids = {"gateway": target.gateway_pid, "upstream": target.upstream_pid}
    return {name: process_usage(pid) for name, pid in pids.items() if pid is not None}


def _report(
    options: GatewayBenchOptions, result: LoadResult, spent: dict[str, Spent], load_average: float
) -> GatewayReport:
    asked = {name: value for name, value in dataclasses.asdict(options).items() if value is not None}
    return make_report(
        result,
        machine=this_machine(),
        shape={name: value for name, value in asked.items() if name not in {"json", "api_key"}},
        measures=measures(ttft_s=options.ttft_ms / 1e3, itl_s=options.itl_ms / 1e3),
        load_s=options.duration,
        gateway=spent.get("gateway"),
        upstream=spent.get("upstream"),
        load_average=load_average,
        seed=options.seed,
    )
