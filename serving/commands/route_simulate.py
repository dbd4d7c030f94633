"""`tierwise route simulate`: what the budget controller would do, on synthetic traffic or on a ledger's requests."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from router.budget import BudgetController
from router.budget_config import BudgetConfig
from router.offer import Metric
from router.plan import Winner
from router.scenarios import FULL_SHARE, REQUESTS_PER_SECOND, play, scenarios
from router.simulate import TICK_S, Second, simulate
from serving.commands import route_simulate_views as views
from serving.commands.ledger import since
from serving.commands.ledger_replay import Replay, rows, time_span
from serving.commands.options import add_settings_options, settings_from
from serving.commands.route_simulate_views import Played
from serving.ledger.database import LedgerError, ledger_url
from serving.ledger.query import open_for_reading
from serving.ledger.recorded import SCHEMA
from serving.settings_sources import SettingsError

NUM_STRETCHES = 1500
"""A ledger's time is shown in no more stretches than these."""
SILENCE_S = 1.0
"""Past a ledger's last request, until its answer has been accounted for."""

ABOUT = """\
Play traffic against the real budget controller and the real rule of choice, in virtual time, and judge how well the
target is held. Without names the scenario `harder` is played; `all` plays every one. With --ledger the requests of a
ledger are played instead, at the forecasts and the quality floors of then. Exit status 1 where a target was not held.
"""

EXAMPLES = """\
scenarios:
{scenarios}

examples:
  tierwise route simulate
  tierwise route simulate all --runs 3 --report held.html
  tierwise route simulate harder --target 0.2 --rate 20
  tierwise route simulate --ledger --since 7d --target 0.2
"""


def main(argv: list[str]) -> int:
    """Run `tierwise route simulate argv…`. 0 held, 1 not held or no ledger to read, 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        played = _play_ledger(args) if args.ledger else _play_scenarios(args)
    except (LedgerError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    if args.report is not None:
        args.report.write_text(views.report(played), encoding="utf-8")
    if args.json:
        print(views.as_json(played))
    else:
        views.show(played)
        if args.report is not None:
            print(f"report: {args.report}")
    return 0 if all(one.is_held for one in played) else 1


def _play_scenarios(args: argparse.Namespace) -> list[Played]:
    known = scenarios(args.rate)
    names = list(known) if "all" in args.scenarios else args.scenarios or ["harder"]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"no scenario {name!r}; {hint}")
    played = []
    for name in names:
        scenario = replace(known[name], config=_terms(known[name].config, args))
        runs = [play(scenario, seed=args.seed + i) for i in range(args.runs)]
        played.append(Played.of_scenario(name, scenario, runs))
    return played


def _play_ledger(args: argparse.Namespace) -> list[Played]:
    settings = settings_from(args)
    config = _terms(FULL_SHARE, args)
    with open_for_reading(ledger_url(settings.ledger.url, settings.home), at_least=SCHEMA) as connection:
        span = time_span(connection, args.since)
        if span is None:
            raise LedgerError("the ledger holds no decision of that time")
        replay = Replay(quality_floor=settings.router.min_quality, began=span[0])
        requests = (replay.request(row) for row in rows(connection, args.since))
        until_s = span[1] - span[0] + SILENCE_S
        controller = BudgetController(config, now=0.0)
        seconds = simulate(requests, controller, np.random.default_rng(args.seed), until_s=until_s)
        width = max(1, round(until_s / TICK_S / NUM_STRETCHES))
        return [Played.of_ledger(config, list(_stretches(seconds, width)))]


def _stretches(seconds: Iterable[Second], width: int) -> Iterator[Second]:
    """So many seconds at a time, joined; so that a month fits into memory."""
    joined: Second | None = None
    for i, second in enumerate(seconds, start=1):
        joined = second if joined is None else joined.joined(second)
        if i % width == 0:
            yield joined
            joined = None
    if joined is not None:
        yield joined


def _terms(usual: BudgetConfig, args: argparse.Namespace) -> BudgetConfig:
    """The usual terms with what the options say.

    Raises:
        ValueError: the terms make no sense, or a metric came without its target.
    """
    if args.metric is not None and args.target is None and args.metric is not usual.metric:
        raise ValueError("--metric needs --target, in the metric's own unit")
    given: Mapping[str, Any] = {
        "metric": args.metric,
        "target": args.target,
        "quality_floor": args.quality_floor,
        "winner": args.winner,
    }
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<13}{scenario.about}" for name, scenario in scenarios().items())
    parser = argparse.ArgumentParser(
        prog="tierwise route simulate",
        description=ABOUT,
        epilog=EXAMPLES.format(scenarios=lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="which to play, or `all`")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run (%(default)s)")
    parser.add_argument(
        "--runs", type=_count, default=1, metavar="N", help="runs a scenario, each of its own seed"
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        default=REQUESTS_PER_SECOND,
        metavar="R",
        help="requests per second (%(default)g)",
    )
    terms = parser.add_argument_group("terms", "what is to be held; each scenario has its own")
    terms.add_argument(
        "--metric", type=Metric, choices=list(Metric), metavar="METRIC", help=", ".join(Metric)
    )
    terms.add_argument("--target", type=float, metavar="X", help="in the metric's unit")
    terms.add_argument(
        "--quality-floor", type=float, metavar="P", help="mean probability of success, from 0 to 1"
    )
    terms.add_argument(
        "--winner", type=Winner, choices=list(Winner), metavar="WINNER", help=" or ".join(Winner)
    )
    ledger = parser.add_argument_group("ledger")
    ledger.add_argument("--ledger", action="store_true", help="play the requests of the ledger")
    ledger.add_argument(
        "--since", type=since, metavar="TIME", help="30m, 1h, 7d, or a date and time; everything where absent"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON, for machines")
    output.add_argument("--report", type=Path, metavar="FILE", help="write an HTML page with plots")
    add_settings_options(parser)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs from 1 to 1000")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no rate; write requests per second, more than 0 and at most 1000"
        )
    return rate
