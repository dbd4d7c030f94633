"""`tierwise route escalation`: says on collected outcomes whether hold-back pays, and fits its model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray
from rich.console import Console

from router.escalation import EscalationModel
from router.escalation_fit import NUM_TOKENS, Trials, fit_pair
from router.escalation_outcomes import pairs_of
from router.escalation_play import Answers
from router.escalation_report import EscalationReport, escalation_report
from router.fit import deal, predict_held_out
from router.fit_config import LEAST_PROMPTS, FitConfig, FitRefusedError
from router.offer import Metric
from router.outcome_table import table_of
from router.prepared import prepare
from serving.bringup.progress import ConsoleReport
from serving.commands.outcomes_file import OutcomesFileError, read_outcomes
from serving.commands.route_escalation_views import print_reports
from serving.escalation_settings import EscalationSettings

METRICS = (Metric.COST_PER_REQUEST, Metric.FULL_SHARE)

ABOUT = """\
Say whether it pays to hold the first tokens of doubtful answers back and to ask a stronger arm where they waver, beside
the router's forecast alone, at equal expense, on outcomes of `tierwise route collect`. Forecasts are held out.
"""


def main(argv: list[str]) -> int:
    """Evaluate, and save the model where asked to. 0, 1 where the outcomes do not suffice, 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        with as_file(files("router") / "data" / "released_outcomes.jsonl.gz") as released:
            rows = read_outcomes(args.outcomes or released)
        pairs = pairs_of(rows, first=args.first, next=args.next)
        if len(pairs.tokens) < LEAST_PROMPTS:
            raise FitRefusedError(
                f"{len(pairs.tokens)} prompts have answers of {args.first} and {args.next} and the first tokens of "
                f"{args.first}; {LEAST_PROMPTS} are needed: `tierwise route collect` into a new file"
            )
        prepared = prepare(table_of(pairs.rows, (args.first, args.next)))
        config = FitConfig(seed=args.seed)
        report = ConsoleReport(Console(stderr=True))
        num_steps = config.num_folds * (config.num_folds + 1)
        with report.track(f"{len(pairs.tokens)} prompts", num_steps, "tensors") as advance:
            steps = iter(range(1, num_steps + 1))
            forecasts = predict_held_out(prepared, config, on_step=lambda: advance(next(steps)))
        answers = pairs.answers(forecasts)
        reports = _reports(answers, prepared.groups, deal(prepared, config), seed=args.seed)
        if args.save is not None:
            args.save.write_bytes(_model_json(answers.trials, args.first, args.next))
    except (OutcomesFileError, FitRefusedError, OSError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    if args.json:
        told = {"num_prompts": len(pairs.tokens), "reports": [_members(each) for each in reports]}
        print(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
    else:
        print_reports(reports, first=args.first, next=args.next, num_prompts=len(pairs.tokens))
    return 0


def _reports(
    answers: Answers, groups: NDArray[np.int64], fold_of: NDArray[np.int64], *, seed: int
) -> list[EscalationReport]:
    return [
        escalation_report(
            answers,
            groups,
            fold_of,
            np.random.Generator(np.random.PCG64(seed)),
            metric=metric,
            num_tokens=num_tokens,
            band=EscalationSettings().band,
        )
        for metric in METRICS
        for num_tokens in NUM_TOKENS
    ]


def _model_json(trials: Trials, first: str, next: str) -> bytes:
    """The model that the gateway reads, fitted on everything: one for each number of tokens."""
    pairs = tuple(fit_pair(trials, first=first, next=next, num_tokens=[num]) for num in NUM_TOKENS)
    members = EscalationModel(pairs).as_members()
    return orjson.dumps(members, option=orjson.OPT_INDENT_2) + b"\n"


def _members(report: EscalationReport) -> dict[str, object]:
    return {**asdict(report), "metric": report.metric.value, "pays": report.pays}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tierwise route escalation", description=ABOUT)
    parser.add_argument(
        "outcomes",
        type=Path,
        nargs="?",
        help="a file of `tierwise route collect` (default: the released tiers')",
    )
    parser.add_argument("--first", default="fast", help="the arm that begins (default %(default)s)")
    parser.add_argument("--next", default="full", help="the arm to go up to (default %(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the model for [router.escalation]")
    parser.add_argument("--seed", type=int, default=0, help="of folds and intervals (default 0)")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    return parser
