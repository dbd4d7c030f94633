"""`tierwise bench router`: how long one decision takes, through the real policy and a fitted model.

Texts of several forms and lengths are decided on one after the other in this process: no gateway, no engine. Beside the
whole decision its stages are timed: reading the text, forecasting every arm (which reads it), and what is left to the
policy. Time is that of this thread on a processor: what else a machine does meanwhile is not the router's. The time
that passed is told beside it; on a machine that does nothing else the two agree.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray
from rich.console import Console

import router
from loadtests.argument_types import count
from loadtests.machine import Machine, this_machine
from loadtests.quantiles import quantile
from loadtests.router_tables import render
from loadtests.router_texts import FORMS, view_of_form
from router.arms import Arm, Capabilities, Price
from router.artifact import from_bytes
from router.artifact_header import ArtifactError
from router.encoding import encode
from router.fitted import FittedModel
from router.offer import Metric
from router.policy import RoutingPolicy
from router.pricing import Pricing
from router.request import RequestView

Seconds = NDArray[np.float64]

RELEASED: Final = Path(router.__file__).parent / "data" / "router.npz"
SIZES: Final = (100, 1000, 4000, 20_000, 100_000)
"""Characters."""
PRICING: Final = Pricing(price_of_compute=0.1, metric=Metric.FULL_SHARE)
WIDTH: Final = 140

DECISION_SIZE, MAX_DECISION_S = 4000, 0.001
READING_SIZE, MAX_READING_S = 100_000, 0.005

ABOUT = """\
Measures how long the router takes to decide: the real policy with a fitted model, on texts of several forms and
lengths, and how much of it is reading, forecasting and choosing. Two bounds are judged: the p99 of a decision on 4,000
characters is at most 1 ms, and that of reading 100,000 at most 5 ms. Time is that of the deciding thread on a
processor; `wall p99` is the time that passed, with whatever else the machine did.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One form of text at one length; seconds."""

    form: str
    num_chars: int
    p50_s: float
    p99_s: float
    wall_p99_s: float
    """The time that passed."""
    reading_p50_s: float
    reading_p99_s: float
    forecast_p50_s: float
    """Of every arm, reading included."""
    policy_p50_s: float
    """What a decision takes beyond its forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound, and the worst form that it is judged on."""

    name: str
    limit_s: float
    measured_s: float
    form: str
    is_met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterReport:
    """What was measured."""

    machine: Machine
    artifact: str
    num_decisions: int
    """Of each form and length."""
    timings: tuple[Timing, ...]
    bounds: tuple[Bound, ...]


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench router argv…`. 0; 1 where no artifact is there, or with --check a bound is missed."""
    args = _parser().parse_args(argv)
    try:
        model = from_bytes(args.artifact.read_bytes())[0]
    except (ArtifactError, OSError) as error:
        print(f"tierwise bench router: {args.artifact}: {error}", file=sys.stderr)
        return 1
    report = measure(model, num_decisions=args.decisions, sizes=args.sizes)
    if args.json:
        print(orjson.dumps(asdict(report), option=orjson.OPT_INDENT_2).decode())
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(render(report))
    return 1 if args.check and not all(bound.is_met for bound in report.bounds) else 0


def measure(model: FittedModel, *, num_decisions: int, sizes: Sequence[int] = SIZES) -> RouterReport:
    """Time decisions of `model` on every form and length."""
    timings = [_timing(model, form, num_chars, num_decisions) for num_chars in sizes for form in FORMS]
    return RouterReport(
        machine=this_machine(),
        artifact=model.version,
        num_decisions=num_decisions,
        timings=tuple(timings),
        bounds=tuple(_bounds(timings)),
    )


def _timing(model: FittedModel, form: str, num_chars: int, num_decisions: int) -> Timing:
    views = [view_of_form(form, num_chars, seed=seed) for seed in range(num_decisions)]
    arms = arms_of(model)
    policy = RoutingPolicy(model)
    stages: tuple[Callable[[RequestView], object], ...] = (
        lambda view: policy.decide(view, arms, PRICING),
        lambda view: model.forecast(view, arms),
        lambda view: encode(view, model.embed),
    )
    (decided, forecast, read), (wall, _, _) = _times(stages, views)
    return Timing(
        form=form,
        num_chars=num_chars,
        p50_s=quantile(decided, 0.5),
        p99_s=quantile(decided, 0.99),
        wall_p99_s=quantile(wall, 0.99),
        reading_p50_s=quantile(read, 0.5),
        reading_p99_s=quantile(read, 0.99),
        forecast_p50_s=quantile(forecast, 0.5),
        policy_p50_s=max(0.0, quantile(decided, 0.5) - quantile(forecast, 0.5)),
    )


def _times(
    stages: Sequence[Callable[[RequestView], object]], views: Sequence[RequestView]
) -> tuple[Seconds, Seconds]:
    """Seconds on a processor and seconds that passed, each (stages, views).

    All stages see a view before the next, so that noise falls on all alike.
    """
    for stage in stages:
        stage(views[0])
    worked, passed = np.zeros((2, len(stages), len(views)))
    gc.collect()
    for at, view in enumerate(views):
        for number, stage in enumerate(stages):
            began, began_work = time.perf_counter(), time.thread_time()
            stage(view)
            worked[number, at] = time.thread_time() - began_work
            passed[number, at] = time.perf_counter() - began
    return worked, passed


def arms_of(model: FittedModel) -> list[Arm]:
    """Arms of the model's names, each stronger and dearer than the one before."""
    return [
        Arm(
            name=name,
            tier=name,
            price=Price(input=0.2 * (1 + 4 * strength), output=0.8 * (1 + 4 * strength)),
            capabilities=Capabilities(context_tokens=1_000_000),
            strength=strength,
        )
        for strength, name in enumerate(model.arms)
    ]


def _bounds(timings: Sequence[Timing]) -> list[Bound]:
    bounds = []
    if decisions := [each for each in timings if each.num_chars == DECISION_SIZE]:
        worst = max(decisions, key=lambda each: each.p99_s)
        name = f"p99 of a decision on {DECISION_SIZE:,} characters"
        bounds.append(_bound(name, MAX_DECISION_S, worst.p99_s, worst.form))
    if readings := [each for each in timings if each.num_chars == READING_SIZE]:
        worst = max(readings, key=lambda each: each.reading_p99_s)
        name = f"p99 of reading {READING_SIZE:,} characters"
        bounds.append(_bound(name, MAX_READING_S, worst.reading_p99_s, worst.form))
    return bounds


def _bound(name: str, limit_s: float, measured_s: float, form: str) -> Bound:
    return Bound(name=name, limit_s=limit_s, measured_s=measured_s, form=form, is_met=measured_s <= limit_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise bench router",
        description=ABOUT,
        epilog="examples:\n  tierwise bench router\n  tierwise bench router --decisions 2000 --json\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--decisions", type=count, default=400, metavar="N", help="of each form and length (default 400)"
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=SIZES, metavar="N,N", help="characters (default 100 to 100,000)"
    )
    parser.add_argument(
        "--artifact",
        type=Path,
        default=RELEASED,
        metavar="FILE",
        help="a fitted model (default: the released one)",
    )
    parser.add_argument("--check", action="store_true", help="status 1 where a bound is missed")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, in seconds")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(count(part.strip()) for part in text.split(","))
