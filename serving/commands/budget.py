"""`tierwise budget`: look at the budget of a running gateway, and change it, over its own HTTP."""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.budget_config import Mode
from router.offer import Metric
from router.plan import Winner
from serving.commands.options import add_settings_options, add_sub_verb, settings_from
from serving.settings_sources import ADMIN_KEY, SettingsError, environment

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 2**20

ABOUT = """\
What a running gateway holds: its target, the price of compute λ, and what both have led to. The gateway is the one that
the settings describe, or --url. Changing anything takes an admin key in $TIERWISE_ADMIN_KEY. A change is in force at
once and outlives a restart, until [budget] itself is changed; the gateway writes it down in <home>/audit.jsonl.
"""

EXAMPLES = {
    "": """\
examples:
  tierwise budget show                            what is held, and how well
  export TIERWISE_ADMIN_KEY=$(tierwise keys create ops --admin)
  tierwise budget set --target 0.2                hold another target
""",
    "show": "examples:\n  tierwise budget show\n  tierwise budget show --json | jq .state.realised\n",
    "set": """\
examples:
  tierwise budget set --target 0.2
  tierwise budget set --metric cost_per_hour --target 4 --quality-floor 0.8 --winner budget
  tierwise budget set --mode frozen
  tierwise budget set --mode manual --price-of-compute 0.15
  tierwise budget set --mode auto
""",
}

UNITS: Final[Mapping[str, str]] = {
    Metric.FULL_SHARE: "request of the strongest tier",
    Metric.COST_PER_REQUEST: "unit of money",
    Metric.COST_PER_HOUR: "unit of money",
    Metric.ENGINE_SECONDS_PER_REQUEST: "second of an engine",
}
"""What λ is a price of."""
CLAIMS: Final[Mapping[str, str]] = {
    "is_budget_infeasible": "no λ takes as little as the target",
    "is_budget_slack": "all that is worth buying takes less than the target",
    "is_floor_binding": "the target asks for less quality than the floor: {winner} has its way",
    "is_floor_infeasible": "no λ reaches the quality floor",
    "is_conservative": "forecasts are in doubt: the target is raised",
}


class GatewayError(Exception):
    """The gateway cannot be asked, or refuses; the message names the remedy."""


def main(argv: list[str]) -> int:
    """Run `tierwise budget argv…`. 0 done, 1 failed or refused, 2 for wrong use."""
    made = parser()
    args = made.parse_args(argv)
    members = members_of(args)
    if members is not None and not members:
        made.error(
            "nothing to set: name at least one of --metric, --target, --quality-floor, --winner, --mode, …"
        )
    try:
        settings = settings_from(args)
        url = args.url or f"http://{_reachable(settings.gateway.host)}:{settings.gateway.port}"
        told = ask(url, environment().get(ADMIN_KEY), members)
    except (SettingsError, GatewayError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        show(told, Console())
    return 0


def parser() -> argparse.ArgumentParser:
    """The verb's parser; `verb` is the sub-verb."""
    made = argparse.ArgumentParser(
        prog="tierwise budget",
        description=ABOUT,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True, dest="verb")
    _sub_verb(verbs, "show", "show what is held, and how well")
    terms = _sub_verb(verbs, "set", "change what is held, at once").add_argument_group("terms")
    terms.add_argument("--metric", choices=list(Metric), metavar="METRIC", help=", ".join(Metric))
    terms.add_argument("--target", type=float, metavar="X", help="in the metric's unit")
    terms.add_argument(
        "--quality-floor", type=float, metavar="P", help="mean probability of success, from 0 to 1"
    )
    terms.add_argument("--winner", choices=list(Winner), metavar="WINNER", help=" or ".join(Winner))
    terms.add_argument("--mode", choices=list(Mode), metavar="MODE", help=", ".join(Mode))
    terms.add_argument(
        "--price-of-compute", type=float, metavar="LAMBDA", help="λ, with --mode manual or dry_run"
    )
    return made


def members_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """What `set` changes; None for `show`."""
    if args.verb == "show":
        return None
    given = {
        "metric": args.metric,
        "target": args.target,
        "quality_floor": args.quality_floor,
        "winner": args.winner,
        "mode": args.mode,
        "price_of_compute": args.price_of_compute,
    }
    return {name: value for name, value in given.items() if value is not None}


def ask(url: str, key: str | None, members: Mapping[str, Any] | None) -> dict[str, Any]:
    """The gateway's budget, after these members of it were changed where there are any.

    Raises:
        GatewayError: no gateway answers there, or it refuses.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise GatewayError(f"{url!r} is no URL of a gateway; write it like http://127.0.0.1:8000")
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(  # noqa: S310  its scheme was looked at
        f"{url.rstrip('/')}/admin/budget",
        data=None if members is None else json.dumps(members).encode(),
        headers=headers,
        method="GET" if members is None else "PUT",
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # an admin key goes nowhere else
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            told = json.loads(response.read(MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise GatewayError(_refusal(error)) from None
    except (OSError, ValueError) as error:
        raise GatewayError(
            f"no gateway answers at {url} ({error}); start one, or name another with --url"
        ) from None
    if not isinstance(told, dict) or told.get("object") != "budget":
        raise GatewayError(f"what answers at {url} is no gateway of ours; name another with --url")
    return told


def show(told: Mapping[str, Any], console: Console) -> None:
    """The gateway's answer as a person reads it."""
    terms, state = told["terms"], told["state"]
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    held = "nothing is held" if terms["target"] is None else f"{terms['metric']} ≤ {terms['target']:g}"
    table.add_row("target", held if state is None else f"{held}, mode {terms['mode']}")
    table.add_row("λ", f"{told['price_of_compute']:.4g} per {UNITS[terms['metric']]}")
    if state is not None:
        if state["advised_price_of_compute"] != told["price_of_compute"]:
            table.add_row("advised λ", f"{state['advised_price_of_compute']:.4g}")
        table.add_row("expected", _number(state["expected"]))
        table.add_row("realised", _number(state["realised"]))
        table.add_row(
            "owed", f"{state['debt']:+.4g} over all requests; price ratio {state['price_ratio']:.3g}"
        )
        table.add_row(
            "quality", f"{_number(state['expected_quality'])} expected, floor {terms['quality_floor']:g}"
        )
        table.add_row(
            "traffic", f"{state['requests_per_second']:.3g} requests/s, {state['num_offers']} looked at"
        )
    console.print(table)
    for claim, words in CLAIMS.items():
        if state is not None and state[claim]:
            console.print(
                "! " + escape(words.format(winner=terms["winner"])), style="yellow", highlight=False
            )


def _sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    made = add_sub_verb(verbs, name, about, examples=EXAMPLES[name])
    made.add_argument(
        "--url", metavar="URL", help="of the gateway (default: where the settings have it listen)"
    )
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    add_settings_options(made)
    return made


def _reachable(host: str) -> str:
    """A host to connect to, for one to listen on."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{shown}]" if ":" in shown else shown


def _refusal(error: urllib.error.HTTPError) -> str:
    try:
        message = json.loads(error.read(MAX_ANSWER_BYTES))["error"]["message"]
    except (OSError, ValueError, TypeError, KeyError):
        return f"the gateway answered with status {error.code}"
    remedy = f" Put it into ${ADMIN_KEY}." if error.code in {401, 403} else ""
    return f"the gateway refused: {message}{remedy}"


def _number(value: float | None) -> str:
    return "not known yet" if value is None else f"{value:.4g}"
