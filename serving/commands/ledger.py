"""`tierwise ledger`: look at what was decided, attempted and spent."""

from __future__ import annotations

import argparse
import os
import sys
import time

from sqlalchemy.engine import URL

from serving.commands import ledger_views as views
from serving.commands.ledger_export import add_export_options, export
from serving.commands.options import add_settings_options, add_sub_verb, settings_from
from serving.ledger.database import LedgerError, ledger_url
from serving.ledger.query import open_for_reading, tail
from serving.ledger.recorded import SCHEMA
from serving.ledger.replay import replay
from serving.ledger.span import moment
from serving.ledger.summary import summarize
from serving.settings_sources import SettingsError

FOLLOW_EVERY_S = 0.5
MAX_FOLLOWED = 1_000
"""Requests that one look of --follow shows; after a burst, the latest."""

ABOUT = """\
The ledger holds one row for each request (what was asked, which arm was chosen and why, how it ended) and one for
each time an upstream was asked (tokens, cost, outcome). Prompts are not in it unless [ledger] store_prompts is on.
It lies in <home>/ledger.sqlite, or in the database that [ledger] url names; a running gateway does not mind a look.
"""

EXAMPLES = {
    "": """\
examples:
  tierwise ledger tail                        the last 20 requests
  tierwise ledger tail --follow               and those to come
  tierwise ledger summary --since 1h          the last hour by tier, arm and reason
  tierwise ledger export --out day.jsonl --since 1d
""",
    "tail": """\
examples:
  tierwise ledger tail -n 100
  tierwise ledger tail --follow
  tierwise ledger tail -n 1000 --json | jq 'select(.status >= 500)'
  tierwise ledger tail --url postgresql+pg8000://tierwise@db/ledger
""",
    "replay": """\
examples:
  tierwise ledger replay --since 1d

exit status: 0 every decision came out as it did, 1 one did not, or no ledger, 2 wrong use, 3 some cannot be replayed
""",
    "summary": """\
examples:
  tierwise ledger summary
  tierwise ledger summary --since 7d
  tierwise ledger summary --since 2026-01-31T09:00 --json | jq .total.cost
""",
    "export": """\
A JSON object a line, with what the ledger has of each decision but the client's key and session. FILE is written whole
or not at all. With --prompts it holds what clients wrote; only what looks like a credential is masked in it.

examples:
  tierwise ledger export --out decisions.jsonl
  tierwise ledger export --out served.jsonl --prompts                   prompts to distil on
  tierwise ledger export --out full.jsonl --tier full --since 7d --until 1d
""",
}


def main(argv: list[str]) -> int:
    """Run `tierwise ledger argv…`. 0 done, 1 no ledger or not readable, 2 for wrong use."""
    args = parser().parse_args(argv)
    try:
        settings = settings_from(args, {"ledger.url": args.url})
        return int(args.run(args, ledger_url(settings.ledger.url, settings.home)))
    except (LedgerError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (`head`, a pager) has enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    """The verb's parser, with a sub-verb's function in `run`."""
    made = argparse.ArgumentParser(
        prog="tierwise ledger",
        description=ABOUT,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True)
    add = _sub_verb(verbs, "tail", "show the last requests")
    add.add_argument(
        "-n", type=_count, default=20, metavar="N", dest="num_requests", help="how many (%(default)s)"
    )
    add.add_argument("-f", "--follow", action="store_true", help="go on with those to come, until Ctrl-C")
    add.set_defaults(run=show_tail)
    add = _sub_verb(
        verbs, "summary", "sum up requests, tokens, cost, latency and outcomes by tier, arm and reason"
    )
    _add_since(add)
    add.set_defaults(run=show_summary)
    add = _sub_verb(verbs, "replay", "make each decision again from its record, and see that it is the same")
    _add_since(add)
    add.set_defaults(run=show_replay)
    add = _sub_verb(verbs, "export", "write decisions into a file, a JSON object a line")
    add_export_options(add)
    _add_since(add)
    add.add_argument("--until", type=since, metavar="TIME", help="before it, written the same way")
    add.set_defaults(run=show_export)
    return made


def show_tail(args: argparse.Namespace, url: URL) -> int:
    """Print the last requests and, with --follow, the next ones as they are written."""
    num_requests, after_id, is_first = args.num_requests, 0, True
    while True:
        # A connection for each look: it sees a ledger that was moved away and made anew.
        with open_for_reading(url) as connection:
            requests = tail(connection, num_requests, after_id=after_id)
        if args.json:
            for request in requests:
                print(views.request_json(request), flush=True)
        elif requests or is_first:
            views.print_tail(requests, has_heading=is_first)
        if not args.follow:
            return 0
        after_id = requests[-1].id if requests else after_id
        num_requests, is_first = MAX_FOLLOWED, False
        time.sleep(FOLLOW_EVERY_S)


def show_summary(args: argparse.Namespace, url: URL) -> int:
    """Print the sums."""
    with open_for_reading(url) as connection:
        summary = summarize(connection, args.since)
    if args.json:
        print(views.summary_json(summary))
    else:
        views.print_summary(summary)
    return 0


def show_replay(args: argparse.Namespace, url: URL) -> int:
    """Replay the decisions and print how they came out."""
    with open_for_reading(url, at_least=SCHEMA) as connection:
        found = replay(connection, args.since)
    if args.json:
        print(views.replay_json(found))
    else:
        views.print_replay(found)
    if found.num_other:
        return 1
    return 3 if found.num_incomplete or found.by_other_policies else 0


def show_export(args: argparse.Namespace, url: URL) -> int:
    """Write the file and print how much is in it."""
    written = export(args, url)
    print(views.export_json(written) if args.json else written)
    return 0


def since(text: str) -> float:
    """Unix time of `30m`, `1h`, `7d` ago, or of an ISO date and time (local where it names no zone)."""
    try:
        return moment(text, now=time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_since(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=since, metavar="TIME", help="30m, 1h, 7d, or a date and time; everything where absent"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of requests")
    return int(text)


def _sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    made = add_sub_verb(verbs, name, about, examples=EXAMPLES[name])
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    made.add_argument(
        "--url", metavar="URL", help="a database by its SQLAlchemy URL; short for --set ledger.url=URL"
    )
    add_settings_options(made)
    return made
