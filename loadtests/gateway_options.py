"""The command line of `tierwise bench gateway`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.argument_types import above_zero, count, not_negative, secret_file, share
from loadtests.arrivals import ARRIVALS
from loadtests.blocks import LoadShape

NUM_PROMPTS = 64
REST_MARGIN_S = 0.1
"""Rest between two blocks, on top of a stream's length."""

_DESCRIPTION = """\
Measures what the gateway adds to each request. One run sends the same open-loop load to a mock upstream
directly and through the gateway, in alternating blocks, and compares: whole answers end to end; streams
by time to first token, by how late each token is against the upstream's timetable, by the gaps between
tokens, and end to end. Latencies count from the moment at which a request was due, whether or not the
load generator kept up. Intervals are 95 % bootstrap intervals over pairs of blocks.

Mock upstream and gateway are started for the run, on free ports, and ended with it. To measure a gateway
that runs already, name it with --url and its upstream with --upstream-url;
`python -m loadtests.mock_upstream --help` tells how to start one.

The exit status is 1 where a request failed or a process did not come up.
"""
_EXAMPLES = """\
examples:
  tierwise bench gateway
  tierwise bench gateway --rate 200 --duration 10 --stream-share 1 --json > added.json
  tierwise bench gateway --url http://127.0.0.1:8000 --upstream-url http://127.0.0.1:9000 --pid 4711
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBenchOptions:
    """What was asked for on the command line."""

    rate: float
    duration: float
    warmup: float
    block: float
    arrivals: str
    stream_share: float
    prompt_chars: int
    connections: int
    seed: int
    ttft_ms: float
    itl_ms: float
    tokens: int
    url: str | None
    upstream_url: str | None
    pid: int | None
    model: str
    api_key: str | None
    json: bool

    @property
    def shape(self) -> LoadShape:
        """The load that this asks for."""
        return LoadShape(
            rate=self.rate,
            duration_s=self.duration,
            block_s=self.block,
            rest_s=(self.ttft_ms + self.tokens * self.itl_ms) / 1e3 + REST_MARGIN_S,
            warmup_s=self.warmup,
            arrivals=self.arrivals,
            stream_share=self.stream_share,
            num_prompts=NUM_PROMPTS,
            seed=self.seed,
        )


def parse_options(argv: Sequence[str]) -> GatewayBenchOptions:
    """Parse; on wrong use print what is wrong and exit with status 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="tierwise bench gateway",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_load(parser.add_argument_group("load"))
    _add_upstream(parser.add_argument_group("upstream"))
    _add_target(parser.add_argument_group("what is measured, where it runs already"))
    parser.add_argument("--json", action="store_true", help="print the report as JSON, in seconds and bytes")
    options = GatewayBenchOptions(**vars(parser.parse_args(argv)))
    if (options.url is None) != (options.upstream_url is None):
        parser.error("--url and --upstream-url belong together: the same load goes to both")
    if options.pid is not None and options.url is None:
        parser.error("--pid belongs to --url; the process of a gateway started here is known")
    return options


def _add_load(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--rate", type=above_zero, default=100.0, help="requests/s while a block runs (default 100)")
    add("--duration", type=above_zero, default=20.0, help="seconds of load on each lane (default 20)")
    add(
        "--warmup",
        type=not_negative,
        default=2.0,
        help="seconds on each lane before, not counted (default 2)",
    )
    add("--block", type=above_zero, default=1.0, help="seconds until it is the other lane's turn (default 1)")
    add("--arrivals", choices=tuple(ARRIVALS), default="poisson", help="when requests come (default poisson)")
    add("--stream-share", type=share, default=0.5, help="of requests that stream, in [0, 1] (default 0.5)")
    add("--prompt-chars", type=count, default=2000, help="length of a prompt (default 2000)")
    connections = "at most, on each lane; the wait for one counts as latency (default 256)"
    add("--connections", type=count, default=256, help=connections)
    add("--seed", type=int, default=0, help="of arrivals, mix, prompts and intervals (default 0)")


def _add_upstream(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--ttft-ms", type=not_negative, default=50.0, help="its time to first token (default 50)")
    add("--itl-ms", type=not_negative, default=10.0, help="its time between tokens (default 10)")
    add("--tokens", type=count, default=20, help="of an answer (default 20)")


def _add_target(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--url", help="the gateway's URL")
    add("--upstream-url", help="its upstream's URL, measured directly")
    add("--pid", type=int, help="the gateway's process on this machine, for CPU and memory")
    add("--model", default="auto", help="what to ask the gateway for (default auto)")
    add(
        "--api-key-file", dest="api_key", type=secret_file, metavar="FILE", help="holds the gateway's API key"
    )
