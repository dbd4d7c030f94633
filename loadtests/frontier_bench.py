"""`tierwise bench frontier`: what routing brings on real tiers, beside always one of them and a lot between them.

The parts: `frontier_prompts` (what is asked), `frontier_tiers` (who is asked), `frontier_load` (one turn's requests),
`frontier_runs` (the order of turns, and their files), `frontier_figures` and `frontier_report` (what came of it).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtests.child_process import ChildError
from loadtests.frontier_load import Answer, LedgerGapError, Load, Way, answers_of, ask
from loadtests.frontier_options import parser, serve_options
from loadtests.frontier_plot import MissingLibraryError, frontier_png, require_matplotlib
from loadtests.frontier_prompts import HeldOut, PromptsError, held_out, own, read_outcomes, recorded
from loadtests.frontier_report import Objectives, Report, as_json, markdown, report_of
from loadtests.frontier_runs import Kept, OtherRunError, Step, Taken, steps
from loadtests.frontier_tables import render
from loadtests.frontier_tiers import Subject, decisions, gateway_on, subject_of
from loadtests.machine import this_machine
from loadtests.timeline import Timeline
from router.prompts import Item

START_S: Final = 8.0
REQUEST_S: Final = 0.12
"""What a turn's start and a request are taken to last where no turn was seen: the released tiers on two cores."""
FAILURES: Final = (ChildError, LedgerGapError, MissingLibraryError, OtherRunError, PromptsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """One run, ready to be taken."""

    args: argparse.Namespace
    subject: Subject
    warm_up: tuple[Item, ...]
    counted: HeldOut
    ways: tuple[Way, ...]
    """Always fast and always full first."""
    kept: Kept

    @property
    def steps(self) -> list[Step]:
        return steps(self.ways, self.args.rounds, self.args.seed)

    def part(self, number: int) -> tuple[Item, ...]:
        """The prompts of one round."""
        return self.counted.items[number :: self.args.rounds]

    @property
    def plan(self) -> dict[str, Any]:
        """What all turns have in common."""
        texts = [item.prompt for item in (*self.warm_up, *self.counted.items)]
        return {
            "models": dict(self.subject.models),
            "options": list(self.subject.options),
            "fitted_on": self.subject.data_sha256,
            "prompts": hashlib.sha256(orjson.dumps(texts)).hexdigest(),
            "num_prompts": len(self.counted.items),
            "num_warm_up": len(self.warm_up),
            "ways": [way.name for way in self.ways],
            "rounds": self.args.rounds,
            "seed": self.args.seed,
            "concurrency": self.args.concurrency,
            "max_tokens": self.args.max_tokens,
        }


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench frontier argv…`; 0 measured, 1 failed, 2 for wrong use, 130 interrupted."""
    args = parser().parse_args(argv)
    try:
        if args.figure is not None:
            require_matplotlib()
        with ExitStack() as stack:
            bench = _prepare(args, stack)
            bench.kept.check(bench.plan)
            if args.dry_run:
                print(_plan_told(bench))
                return 0
            bench.kept.begin(bench.plan, bench.counted.items)
            _take_all(bench)
            _tell(_report(bench), args)
    except KeyboardInterrupt:
        kept = f"the same command goes on from {args.resume}" if args.resume else "--resume DIR would keep it"
        print(f"tierwise bench frontier: stopped; {kept}", file=sys.stderr)
        return 130
    except FAILURES as error:
        print(f"tierwise bench frontier: {error}", file=sys.stderr)
        return 1
    return 0


def _prepare(args: argparse.Namespace, stack: ExitStack) -> _Bench:
    subject = subject_of(serve_options(args))
    for tier in (args.fast, args.full):
        if tier not in subject.models:
            raise ChildError(
                f"no tier {tier!r}; name the ends with --fast and --full: {', '.join(subject.models)}"
            )
    outcomes = read_outcomes(args.fitted_on)
    if subject.data_sha256 not in {None, outcomes.data_sha256}:
        raise PromptsError(
            f"the router was fitted on outcomes with the hash {subject.data_sha256}, and {args.fitted_on} has "
            f"{outcomes.data_sha256}; name its own with --fitted-on (a refit keeps them in HOME/refits/)"
        )
    source = own(args.seed) if args.source is None else recorded(args.source)
    found = held_out(source, args.prompts + args.warm_up, outcomes.prompts)
    if len(found.items) <= args.warm_up:
        raise PromptsError(
            f"only {len(found.items)} prompts are unlike what the router was fitted on, and {args.warm_up} are for "
            "warming up; name other prompts with --from"
        )
    places = list(range(len(found.items)))
    random.Random(args.seed).shuffle(places)
    directory = args.resume or Path(
        stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwise-bench-"))
    )
    return _Bench(
        args=args,
        subject=subject,
        warm_up=found.part(places[: args.warm_up]).items,
        counted=found.part(places[args.warm_up :]),
        ways=(
            Way(name="always-fast", model=args.fast, target=None),
            Way(name="always-full", model=args.full, target=None),
            *(Way(name=f"routed-{budget:g}", model="auto", target=budget) for budget in args.budgets),
        ),
        kept=Kept(directory),
    )


def _plan_told(bench: _Bench) -> str:
    """What would be asked, and about how long that takes."""
    of_each = len(bench.counted.items) + bench.args.rounds * len(bench.warm_up)
    seen = [taken for step in bench.steps if (taken := bench.kept.taken(step)) is not None]
    num_left = len(bench.steps) - len(seen)
    num_requests = of_each * len(bench.ways) * num_left / len(bench.steps)
    start_s, request_s, basis = START_S, REQUEST_S, "as fast as the released tiers on two cores"
    if seen:
        start_s = sum(taken.starting_s for taken in seen) / len(seen)
        request_s = sum(taken.asking_s for taken in seen) / (
            of_each * len(bench.ways) * len(seen) / len(bench.steps)
        )
        basis = f"as fast as the {len(seen)} turns that are there"
    models = ", ".join(f"{tier} = {model}" for tier, model in bench.subject.models.items())
    minutes = (num_left * start_s + num_requests * request_s) / 60
    return (
        f"{models}\n{len(bench.counted.items)} prompts in {len(bench.ways)} ways, {len(bench.warm_up)} more to warm "
        f"each of {len(bench.steps)} turns up; {bench.counted.num_like_fitted} were like what the router was fitted on "
        f"and are left out\n{num_requests:,.0f} requests in {num_left} turns: about {minutes:.0f} min, if {basis}"
    )


def _take_all(bench: _Bench) -> None:
    with Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        total = sum(len(bench.warm_up) + len(bench.part(step.part)) for step in bench.steps)
        bar = progress.add_task("frontier", total=total)
        for step in bench.steps:
            progress.update(bar, description=step.way.name)
            if bench.kept.taken(step) is not None:
                progress.advance(bar, len(bench.warm_up) + len(bench.part(step.part)))
            else:
                bench.kept.keep(step, _take(bench, step, lambda: progress.advance(bar)))


def _take(bench: _Bench, step: Step, on_answer: Callable[[], None]) -> Taken:
    load = Load(concurrency=bench.args.concurrency, max_tokens=bench.args.max_tokens)
    items, model = bench.part(step.part), step.way.model

    async def ask_all(url: str) -> list[Timeline]:
        await ask(url, bench.warm_up, model=model, load=load, on_answer=on_answer)
        return await ask(url, items, model=model, load=load, on_answer=on_answer)

    with tempfile.TemporaryDirectory(prefix="tierwise-frontier-") as name:
        began_s = time.monotonic()
        with gateway_on(bench.subject, Path(name), target=step.way.target) as url:
            up_s = time.monotonic()
            timelines = asyncio.run(ask_all(url))
            over_s = time.monotonic()
        decided = decisions(Path(name))
    return Taken(
        way=step.way.name,
        part=step.part,
        starting_s=up_s - began_s,
        asking_s=over_s - up_s,
        answers=answers_of(items, timelines, decided),
    )


def _report(bench: _Bench) -> Report:
    answers: dict[str, dict[str, Answer]] = {way.name: {} for way in bench.ways}
    for step in bench.steps:
        taken = bench.kept.taken(step)
        assert taken is not None, "every turn was taken"
        answers[step.way.name] |= {answer.prompt_id: answer for answer in taken.answers}
    order = [item.prompt_id for item in bench.counted.items]
    return report_of(
        {way: [by_id[prompt_id] for prompt_id in order] for way, by_id in answers.items()},
        bench.ways,
        ends=(bench.ways[0], bench.ways[1]),
        groups=bench.counted.groups,
        objectives=Objectives(max_ttft_s=bench.args.max_ttft, max_tpot_s=bench.args.max_tpot),
        subject=bench.plan,
        machine=this_machine(),
        seed=bench.args.seed,
    )


def _tell(report: Report, args: argparse.Namespace) -> None:
    if args.figure is not None:
        title = f"{report.frontier.num_prompts} prompts that the router was not fitted on"
        args.figure.write_bytes(frontier_png(report.frontier, title))
    if args.json:
        options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
        print(orjson.dumps(as_json(report), option=options).decode())
    elif args.markdown:
        print(markdown(report))
    else:
        Console().print(render(report))
