"""`tierwise bench disconnects`: do clients that vanish at any moment leave something behind?

A random mix of requests runs against a gateway; most clients leave before the headers, before the first token,
amid the stream, or while they wait for a whole answer, half of them with a TCP reset. Then every gauge of requests
under way must come to zero, on the gateway and on its engines, and as many requests at once as before must all be
answered.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
import uvloop
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadtests.alarms import Alarms
from loadtests.child_process import ChildError
from loadtests.departure_load import DepartureLoad
from loadtests.departures import LEFT, Departure, Phase, UsualTimes, phase_of, plan_departures
from loadtests.disconnect_options import DisconnectOptions, parse_options
from loadtests.fetch import FetchError
from loadtests.gateway_process import gateway, mock_upstream, until_ready
from loadtests.gauges import ENGINE_GAUGES, GATEWAY_GAUGES, MetricsPage, Settlement, settle
from loadtests.prompts import render_prompts
from loadtests.stream_client import ChatClient
from loadtests.timeline import Timeline

NUM_PROMPTS = 32
TIMEOUT_S = 300.0
"""After which an unfinished request counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectReport:
    """What happened, and whether anything was left behind."""

    num_requests: int
    elapsed_s: float
    phases: dict[str, int]
    """Where requests stood when their clients left, as it came about."""
    errors: dict[str, int]
    """Why requests failed that nobody left."""
    settled_s: float
    """How long the gauges took to come to zero, or how long they were waited for."""
    leftovers: dict[str, float]
    """Gauges that stayed above zero."""
    num_final_failures: int
    """Of the requests sent at once at the very end."""

    @property
    def is_clean(self) -> bool:
        """Nothing failed and nothing was left behind."""
        return not (self.errors or self.leftovers or self.num_final_failures)


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench disconnects argv…`."""
    options = parse_options(argv)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwise-bench-")))
        try:
            url, engine_pages = _target(options, stack, directory)
            report = uvloop.run(run_disconnects(options, url=url, engine_metrics_urls=engine_pages))
        except (ChildError, FetchError, ValueError) as error:
            print(f"tierwise bench disconnects: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(orjson.dumps(dataclasses.asdict(report), option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(_table(report), _verdict(report))
    return 0 if report.is_clean else 1


async def run_disconnects(
    options: DisconnectOptions, *, url: str, engine_metrics_urls: Sequence[str]
) -> DisconnectReport:
    """Run the mix against the gateway at `url` and look at what is left.

    Raises:
        FetchError: a metrics page cannot be read.
        ValueError: the gateway answers nothing at all.
    """
    alarms = Alarms(asyncio.get_running_loop())
    client = ChatClient(
        url, alarms=alarms, max_connections=options.concurrency, timeout_s=TIMEOUT_S, api_key=options.api_key
    )
    prompts = render_prompts(num_prompts=NUM_PROMPTS, num_chars=options.prompt_chars, seed=options.seed)
    load = DepartureLoad(
        client, alarms=alarms, prompts=prompts, model=options.model, max_tokens=options.max_tokens
    )
    pages = [
        MetricsPage(url=f"{url}/metrics", gauges=GATEWAY_GAUGES, needs_all=True, api_key=options.api_key)
    ]
    pages += [
        MetricsPage(url=page, gauges=ENGINE_GAUGES, needs_all=False, api_key=options.engine_key)
        for page in engine_metrics_urls
    ]
    try:
        return await _run(options, load, pages)
    finally:
        await client.close()
        alarms.close()


async def _run(
    options: DisconnectOptions, load: DepartureLoad, pages: Sequence[MetricsPage]
) -> DisconnectReport:
    began_s = time.monotonic()
    stayers = [_stayer(is_streaming=index % 2 == 0) for index in range(max(2, options.concurrency))]
    usual = UsualTimes.of(await load.run(stayers, num_clients=options.concurrency, usual=None))
    plan = plan_departures(options.requests, seed=options.seed)
    timelines = await load.run(plan, num_clients=options.concurrency, usual=usual)
    elapsed_s = time.monotonic() - began_s
    settlement = await settle(pages, timeout_s=options.settle)
    final = await load.run(stayers, num_clients=options.concurrency, usual=None)
    return _report(timelines, settlement, final, elapsed_s=elapsed_s)


def _stayer(*, is_streaming: bool) -> Departure:
    return Departure(is_streaming=is_streaming, phase=Phase.COMPLETE, fraction=0.0, resets=False)


def _report(
    timelines: Sequence[Timeline], settlement: Settlement, final: Sequence[Timeline], *, elapsed_s: float
) -> DisconnectReport:
    counts = Counter(phase_of(timeline) for timeline in timelines)
    failures = Counter(t.error for t in timelines if t.error is not None and t.error != LEFT)
    return DisconnectReport(
        num_requests=len(timelines),
        elapsed_s=elapsed_s,
        phases={phase.value: counts[phase] for phase in Phase},
        errors=dict(failures.most_common(10)),
        settled_s=settlement.waited_s,
        leftovers=settlement.leftovers,
        num_final_failures=sum(timeline.error is not None for timeline in final),
    )


def _target(options: DisconnectOptions, stack: ExitStack, directory: Path) -> tuple[str, Sequence[str]]:
    """The gateway's URL and its engines' metrics pages: as named, or of processes started here."""
    if options.url is not None:
        return options.url.rstrip("/"), options.engine_metrics_urls
    upstream_url, _ = stack.enter_context(
        mock_upstream(ttft_ms=50.0, itl_ms=10.0, num_tokens=options.max_tokens, directory=directory)
    )
    url, child = stack.enter_context(gateway(upstream_url=upstream_url, directory=directory))
    asyncio.run(until_ready(url, child=child, log=directory / "gateway.log"))
    return url, [f"{upstream_url}/metrics"]


def _table(report: DisconnectReport) -> Table:
    table = Table(title=f"{report.num_requests} requests in {report.elapsed_s:.1f} s", show_header=False)
    for phase, count in report.phases.items():
        title = "stayed to the end" if phase == Phase.COMPLETE.value else f"left: {phase.replace('_', ' ')}"
        table.add_row(title, str(count))
    for message, count in report.errors.items():
        table.add_row(Text(f"failed: {message}", style="red"), str(count))
    for name, value in report.leftovers.items():
        table.add_row(Text(f"left behind: {name}", style="red"), f"{value:g}")
    table.add_row("seconds until the gauges were zero", f"{report.settled_s:.1f}")
    table.add_row("failures of the final wave", str(report.num_final_failures))
    return table


def _verdict(report: DisconnectReport) -> Text:
    if report.is_clean:
        return Text("nothing was left behind", style="bold green")
    return Text("something was left behind or failed; see above", style="bold red")
