"""`tierwise distill cost-model`: whether a draft pays on this machine and engine, by domain and number of drafts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from distill.commands.failures import reported
from distill.commands.options import new_parser
from train.commands.options import add_home_option

if TYPE_CHECKING:
    from rich.table import Table

    from distill.cost_model import StepTimes, Verdict

ABOUT = """\
Predict the speed-up of draft-and-verify, E / (γ c + v), from step times measured here and measured acceptance, for
every number of drafts γ and of streams. c is a draft step and v the verification of γ + 1 tokens, both in steps of the
target; E = 1 + a₁ + a₁a₂ + … is what a round gives. Where a draft proposes something in a share of rounds only, it
costs only there. A draft that makes no domain faster is refused, with status 1.

Times are taken with --engine in-process (the sampler inside; drafts may be `ngram`, a head or a model) or llamacpp (the
engine that serves; GGUF files or artifacts, or `ngram`), or read from the JSON of an earlier call with --measurements.
Measure on an idle machine: whatever else runs is in the times. The table goes to stderr, JSON to stdout.
"""
EXAMPLES = """\
examples:
  tierwise distill cost-model smollm2 --draft ngram --acceptance sums=0.6,0.5 --streams 1,4
  tierwise distill cost-model full:1 --draft fast:1 --engine llamacpp --acceptance acceptance.json > cost.json
  tierwise distill cost-model --measurements cost.json --acceptance prose=0.3
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill cost-model argv…`. 0 it pays somewhere, 1 it does not or something failed, 2 wrong use."""
    made = parser()
    args = made.parse_args(argv)
    if (args.measurements is None) == (args.target is None) or (args.target and args.draft is None):
        made.error("name a TARGET and its --draft to measure, or --measurements that were taken")
    return reported(lambda: _judge(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("cost-model", ABOUT, EXAMPLES)
    made.add_argument("target", nargs="?", metavar="TARGET", help="`smollm2`, a path or an artifact")
    made.add_argument("--draft", metavar="DRAFT", help="`ngram`, a head's directory, or a model as TARGET")
    made.add_argument("--engine", choices=("in-process", "llamacpp"), default="in-process")
    made.add_argument("--measurements", type=Path, metavar="JSON", help="times of an earlier call")
    made.add_argument(
        "--acceptance",
        action="append",
        required=True,
        metavar="A",
        help="`domain=a₁,a₂…`, or the JSON of `draft measure` (also of `bench speculation`, "
        "with one draft); may be given often",
    )
    made.add_argument(
        "--drafts", type=_numbers, default=[1, 2, 3, 5], metavar="γ,γ", help="(default 1,2,3,5)"
    )
    made.add_argument("--streams", type=_numbers, default=[1], metavar="N,N", help="(default 1)")
    made.add_argument("--threads", type=int, help="torch's or the engine's own choice where absent")
    add_home_option(made)
    return made


def _numbers(text: str) -> list[int]:
    found = [int(each) for each in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def _judge(args: argparse.Namespace) -> int:
    from rich.console import Console

    from distill.cost_model import predict
    from train.run_directory import RunError

    taken = {domain: found for each in args.acceptance for domain, found in read_acceptance(each).items()}
    acceptance = {domain: found.rates for domain, found in taken.items()}
    shares = {domain: found.proposed_share for domain, found in taken.items()}
    times = _read_times(args.measurements) if args.measurements else _measured(args)
    try:
        verdict = predict(
            times,
            acceptance,
            nums_drafts=args.drafts,
            nums_streams=args.streams,
            proposed_shares=shares,
        )
    except ValueError as error:
        raise RunError(str(error)) from None
    Console(stderr=True).print(_table(verdict, times))
    told: dict[str, Any] = {
        "times": times.model_dump(mode="json"),
        "acceptance": acceptance,
        "proposed_shares": shares,
        "predictions": [asdict(each) for each in verdict.predictions],
        "pays": verdict.paying,
    }
    json.dump(told, sys.stdout, indent=2)
    print()
    verdict.require_paying()
    return 0


class Taken(NamedTuple):
    """What a draft is worth on a domain."""

    rates: list[float]
    """Chances by place."""
    proposed_share: float = 1.0
    """Of rounds in which anything is proposed."""


def read_acceptance(said: str) -> dict[str, Taken]:
    """Domain → what is taken, of `domain=a,a` or of a file that `draft measure` wrote.

    Raises:
        RunError: it is neither.
    """
    from train.run_directory import RunError

    try:
        if "=" in said:
            domain, _, rates = said.partition("=")
            return {domain: Taken([float(each) for each in rates.split(",")])}
        told = json.loads(Path(said).read_text(encoding="utf-8"))["acceptance"]
        if len({each["domain"] for each in told}) < len(told):
            raise ValueError("a domain is there twice: keep the entries of one draft")
        return {
            each["domain"]: Taken(
                [place["conditional"] for place in each["places"]], each["places"][0]["proposed_share"]
            )
            for each in told
        }
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(
            f"{said!r} is no acceptance ({error}); give domain=a,a or the JSON of `tierwise distill draft measure`"
        ) from None


def _read_times(path: Path) -> StepTimes:
    from pydantic import ValidationError

    from distill.cost_model import StepTimes
    from train.run_directory import RunError

    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return StepTimes.model_validate(told.get("times", told))
    except (OSError, ValueError, AttributeError, ValidationError) as error:
        raise RunError(f"{path} has no step times ({error}); measure with this command") from None


def _measured(args: argparse.Namespace) -> StepTimes:
    from rich.console import Console

    from distill.drafts.measured import Asked, measure_in_engine, measure_in_process
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.commands.options import home_of

    measure = measure_in_process if args.engine == "in-process" else measure_in_engine
    return measure(
        args.target,
        args.draft,
        Asked(args.drafts, args.streams, args.threads),
        Store(home_of(args) / "registry"),
        ConsoleReport(Console(stderr=True)),
    )


def _table(verdict: Verdict, times: StepTimes) -> Table:
    from rich.table import Table

    domains: Sequence[str] = list(verdict.predictions[0].speed_ups)
    title = f"speed-up by domain, predicted; * the best number of drafts that pays ({times.engine})"
    table = Table(title=title, title_justify="left")
    for name in ("streams", "drafts", "c", "v", "break-even", *domains):
        table.add_column(name, justify="right")
    for each in verdict.predictions:
        needed = "never" if each.break_even is None else f"{each.break_even:.2f}"
        cells = []
        for domain in domains:
            is_best = each.speed_ups[domain] > 1 and verdict.best(domain, each.num_streams) is each
            cells.append(f"{each.speed_ups[domain]:.2f}{'*' if is_best else ''}")
        costs = (f"{each.draft_cost:.3f}", f"{each.verify_cost:.2f}", needed)
        table.add_row(str(each.num_streams), str(each.num_drafts), *costs, *cells)
    return table
