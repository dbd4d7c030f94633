"""The command line of `tierwise bench frontier`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from loadtests.argument_types import above_zero, count, share
from loadtests.frontier_prompts import RELEASED_OUTCOMES

BUDGETS: Final = tuple(number / 10 for number in range(1, 10))
ABOUT: Final = """\
Whether routing pays, end to end on real weights. The configured tiers and a gateway are started anew for every turn and
asked prompts with known answers, none of which is like what the router was fitted on: always the fast tier, always the
full one, and model="auto" with each budget held as a share of the full tier. Told of each way: verified score, share,
cost by the ledger, time to the first token, tokens/s, right answers within the objectives a second; and how far routing
lies above the line between the two ends, with intervals. "Above" is said only where the whole interval is.
"""
EXAMPLES: Final = """\
examples:
  tierwise bench frontier --dry-run
  tierwise bench frontier --resume runs/frontier --figure docs/end_to_end.png --markdown
  tierwise bench frontier --set tiers.fast.model=fast@candidate --set router.artifact=router@candidate \\
      --fitted-on outcomes.jsonl
"""


def parser() -> argparse.ArgumentParser:
    """All options."""
    made = argparse.ArgumentParser(
        prog="tierwise bench frontier",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_load(made.add_argument_group("what is asked"))
    _add_output(made.add_argument_group("what is told, and kept"))
    settings = made.add_argument_group("settings", "see `tierwise serve --help` for where settings come from")
    settings.add_argument("--config", metavar="FILE", help="a TOML configuration")
    settings.add_argument("--home", metavar="DIR", help="where the registry lives")
    settings.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments", help="set one leaf"
    )
    settings.add_argument(
        "--fast", default="fast", metavar="TIER", help="the cheap end (default %(default)s)"
    )
    settings.add_argument(
        "--full",
        default="full",
        metavar="TIER",
        help="the dear end, the strongest tier (default %(default)s)",
    )
    return made


def serve_options(args: argparse.Namespace) -> list[str]:
    """The settings' options as `tierwise serve` takes them."""
    options = [word for each in args.assignments for word in ("--set", each)]
    for name in ("config", "home"):
        if (value := getattr(args, name)) is not None:
            options += [f"--{name}", value]
    return options


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--prompts", type=count, default=600, metavar="N", help="each in every way (default 600)"
    )
    group.add_argument(
        "--from",
        type=Path,
        metavar="FILE",
        dest="source",
        help="prompts of one's own: {domain, level, prompt, answer}, one a line (default: made from the seed)",
    )
    group.add_argument(
        "--fitted-on",
        type=Path,
        default=RELEASED_OUTCOMES,
        metavar="FILE",
        help="the outcomes that the router was fitted on; what is like them is not asked (default: the released)",
    )
    group.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of prompts, order and intervals (default 1)"
    )
    group.add_argument(
        "--budgets", type=_budgets, default=BUDGETS, metavar="X,X", help="shares to hold (default 0.1 to 0.9)"
    )
    group.add_argument(
        "--rounds",
        type=count,
        default=2,
        metavar="N",
        help="turns of each way, forwards and backwards (default 2)",
    )
    group.add_argument(
        "--warm-up",
        type=count,
        default=60,
        metavar="N",
        help="other prompts before each turn, which do not count: the budget settles (default 60)",
    )
    group.add_argument(
        "--concurrency", type=count, default=4, metavar="N", help="clients at once (default 4)"
    )
    group.add_argument("--max-tokens", type=count, default=32, metavar="N", help="of an answer (default 32)")
    group.add_argument(
        "--max-ttft", type=above_zero, default=1.0, metavar="S", help="objective: first token (default 1)"
    )
    group.add_argument(
        "--max-tpot",
        type=above_zero,
        default=0.1,
        metavar="S",
        help="objective: each further one (default 0.1)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--figure", type=Path, metavar="PNG", help="draw it: score against cost and share")
    group.add_argument("--markdown", action="store_true", help="print a table for a README")
    group.add_argument("--json", action="store_true", help="print all figures as JSON")
    group.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep every turn here, and go on with what is here already"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="say what would be asked and for how long, and end"
    )


def _budgets(text: str) -> tuple[float, ...]:
    found = tuple(dict.fromkeys(share(part.strip()) for part in text.split(",")))
    if not all(0 < budget < 1 for budget in found):
        raise argparse.ArgumentTypeError("shares between 0 and 1, without the ends, separated by commas")
    return found
