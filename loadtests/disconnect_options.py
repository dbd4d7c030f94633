"""The command line of `tierwise bench disconnects`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.argument_types import above_zero, count, secret_file

_DESCRIPTION = """\
Sends a random mix of requests whose clients leave at random moments: before the headers, before the first
token, amid the stream, while waiting for a whole answer; with a FIN or a RST. Afterwards every gauge of
requests under way must come to zero (gateway: tierwise_requests_in_flight, tierwise_replica_in_flight,
tierwise_queue_length; engines: what llama.cpp, vLLM or the mock call them), and as many requests at once
as before must all be answered.

Without --url a gateway and a mock upstream are started for the run and ended with it.

The exit status is 1 where a gauge stays above zero or a request that was not left fails.
"""
_EXAMPLES = """\
examples:
  tierwise bench disconnects
  tierwise bench disconnects --url http://127.0.0.1:8000 --requests 2000 --concurrency 32 \\
      --engine-metrics-url http://127.0.0.1:9001/metrics --engine-metrics-url http://127.0.0.1:9002/metrics
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectOptions:
    """What was asked for on the command line."""

    url: str | None
    engine_metrics_urls: list[str]
    requests: int
    concurrency: int
    seed: int
    model: str
    max_tokens: int
    prompt_chars: int
    settle: float
    api_key: str | None
    engine_key: str | None
    json: bool


def parse_options(argv: Sequence[str]) -> DisconnectOptions:
    """Parse; on wrong use print what is wrong and exit with status 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="tierwise bench disconnects",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", help="a gateway that runs already")
    add(
        "--engine-metrics-url",
        dest="engine_metrics_urls",
        action="append",
        default=[],
        metavar="URL",
        help="the metrics page of one of its engines; may be repeated",
    )
    add("--requests", type=count, default=2000, help="in the mix (default 2000)")
    add("--concurrency", type=count, default=32, help="clients at once (default 32)")
    add("--seed", type=int, default=0, help="of the mix and the prompts (default 0)")
    add("--model", default="auto", help="what to ask for (default auto)")
    add("--max-tokens", type=count, default=24, help="of an answer (default 24)")
    add("--prompt-chars", type=count, default=200, help="length of a prompt (default 200)")
    add("--settle", type=above_zero, default=30.0, help="seconds for gauges to come to zero (default 30)")
    add(
        "--api-key-file", dest="api_key", type=secret_file, metavar="FILE", help="holds the gateway's API key"
    )
    add(
        "--engine-key-file",
        dest="engine_key",
        type=secret_file,
        metavar="FILE",
        help="holds the engines' API key",
    )
    add("--json", action="store_true", help="print the report as JSON")
    options = DisconnectOptions(**vars(parser.parse_args(argv)))
    if options.engine_metrics_urls and options.url is None:
        parser.error(
            "--engine-metrics-url belongs to --url; the mock upstream started here is watched anyway"
        )
    return options
