"""`tierwise route whatif`: what another target, or another λ, would have cost and lost, by the ledger's requests."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from router.offer import Metric
from serving.commands.ledger import since
from serving.commands.options import add_settings_options, settings_from
from serving.commands.route_whatif_views import show
from serving.ledger.database import LedgerError, ledger_url
from serving.ledger.query import open_for_reading
from serving.ledger.recorded import SCHEMA
from serving.ledger.whatif import NothingDecidedError, Question, answer
from serving.settings_sources import SettingsError

MAX_DECISIONS: Final = 50_000
"""Requests that are looked at, at about two kilobytes each; of more, a sample."""

ABOUT = """\
Ask the ledger what its requests would have come to under another target, or another price of compute λ: what they would
have taken and how many would have succeeded, with 95 % intervals, beside what the policy of the day led to. Forecasts
alone are not trusted: they are corrected by what came of the requests that went where the other policy sends them
(doubly robust estimates). That takes an exploration share ([router] exploration_share), and grades for the successes
(POST /v1/feedback). Where they are too few there is no estimate, and it is said what is missing.
"""

EXAMPLES = """\
examples:
  tierwise route whatif --target 0.2 --since 7d
  tierwise route whatif --metric full_share --target 0.1,0.2,0.3
  tierwise route whatif --price 250,500 --json | jq .answers[0].success

exit status: 0 all is known, 1 no ledger or no decision to look at, 2 wrong use, 3 something is not known for lack of
support
"""


def main(argv: list[str]) -> int:
    """Run `tierwise route whatif argv…`; the exit status as the examples tell it."""
    made = parser()
    args = made.parse_args(argv)
    try:
        question = Question(
            targets=args.target,
            prices=args.price,
            metric=args.metric,
            since=args.since,
            exploration_share=args.exploration_share,
        )
    except ValueError as error:
        made.error(str(error))
    try:
        settings = settings_from(args, {"ledger.url": args.url})
        url = ledger_url(settings.ledger.url, settings.home)
        with open_for_reading(url, at_least=SCHEMA) as connection:
            told = answer(connection, question, max_decisions=args.max_requests)
    except (LedgerError, NothingDecidedError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    try:
        if args.json:
            print(json.dumps(told, ensure_ascii=False, indent=2), flush=True)
        else:
            show(told)
    except BrokenPipeError:
        # The reader (`head`, a pager) has enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 3 if any(one["lack"] for one in _quantities(told)) else 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = argparse.ArgumentParser(
        prog="tierwise route whatif",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    asked = made.add_argument_group("what is asked")
    asked.add_argument(
        "--target", type=_numbers, default=(), metavar="X[,X…]", help="to hold, in the metric's unit"
    )
    asked.add_argument(
        "--price",
        type=_numbers,
        default=(),
        metavar="LAMBDA[,…]",
        help="of compute, fixed, per unit of the metric",
    )
    asked.add_argument(
        "--metric",
        type=Metric,
        choices=list(Metric),
        metavar="METRIC",
        help=f"{', '.join(Metric)} (default: that of the last request)",
    )
    asked.add_argument(
        "--exploration-share",
        type=_share,
        metavar="S",
        help="of the requests under the other policy (default: that of the last request)",
    )
    log = made.add_argument_group("the ledger")
    log.add_argument(
        "--since", type=since, metavar="TIME", help="30m, 1h, 7d, or a date and time; everything where absent"
    )
    log.add_argument(
        "--max-requests",
        type=_count,
        default=MAX_DECISIONS,
        metavar="N",
        help="how many to look at; of more, a sample (%(default)s)",
    )
    log.add_argument(
        "--url", metavar="URL", help="a database by its SQLAlchemy URL; short for --set ledger.url=URL"
    )
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    add_settings_options(made)
    return made


def _quantities(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in told["answers"]:
        yield from (one["success"], one["cost"], one["taken"])


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of numbers; write 0.2 or 0.1,0.2,0.3"
        ) from None


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; write a number from 0 to below 1")
    return share


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of requests")
    return int(text)
