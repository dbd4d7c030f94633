"""`tierwise train queue`: many runs on one machine, by priority, share and deadline."""

from __future__ import annotations

import argparse
import time
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser
from train.commands.recipe_options import overrides_of
from train.commands.run import until_told
from train.recipe import load_recipe
from train.scheduler.job import Entry, Job
from train.scheduler.order import is_urgent
from train.scheduler.queue_directory import Queue
from train.scheduler.slot import QUANTUM_S
from train.scheduler.turns import Utilisation, utilisation

ABOUT = """\
A queue is a directory. Jobs with a higher --priority stop those with a lower one at the next border of a step, their
rollouts kept; they go on later to the very weights that they would have had. Among equals every --owner gets the same
time, and a job whose --deadline is at risk goes first. `run` is one slot: start several for several at once.
"""
EXAMPLES = """\
examples:
  tierwise train queue add r1 --queue jobs --id night
  tierwise train queue run --queue jobs
  tierwise train queue add r0 --queue jobs --priority 5 --deadline 2026-12-01T08:00
  tierwise train queue list --queue jobs
  tierwise train queue cancel night --queue jobs
"""
POLL_S = 2.0


def main(argv: list[str]) -> int:
    """Run `tierwise train queue argv…`. 0 done, 1 failed, 2 for wrong use, 130 stopped."""
    args = parser().parse_args(argv)
    verbs = {"add": _add, "list": _list, "run": _run, "cancel": _cancel}
    return reported(lambda: verbs[args.verb](Queue(args.queue), args))


def _add(queue: Queue, args: argparse.Namespace) -> int:
    recipe = load_recipe(args.recipe, overrides=overrides_of(args.assignments))
    now = time.time()
    job = Job(
        id=args.id or f"{recipe.name}-{int(now * 1000):x}",
        recipe=recipe.model_dump(mode="json"),
        priority=args.priority,
        owner=args.owner,
        deadline_s=args.deadline and args.deadline.timestamp(),
        added_s=now,
    )
    queue.add(job)
    print(job.id)
    return 0


def _list(queue: Queue, args: argparse.Namespace) -> int:
    console, now = Console(), time.time()
    table = Table()
    for name in ("job", "status", "priority", "owner", "deadline", "steps", "used", "gave way", ""):
        table.add_column(name)
    for entry in queue.entries():
        table.add_row(*_row(entry, now))
    console.print(table)
    for slot, turns in queue.turns().items():
        console.print(f"slot {slot}: {_used(utilisation(turns))}")
    return 0


def _row(entry: Entry, now_s: float) -> tuple[str, ...]:
    job, done = entry.job, entry.progress
    until = "" if job.deadline_s is None else datetime.fromtimestamp(job.deadline_s).strftime("%m-%d %H:%M")
    late = entry.is_open and job.deadline_s is not None and job.deadline_s <= now_s
    at_risk = " late" if late else " at risk" if entry.is_open and is_urgent(entry, now_s) else ""
    return (
        job.id,
        done.status if entry.is_held or not entry.is_open else "waiting",
        str(job.priority),
        job.owner,
        until + at_risk,
        f"{done.num_done}/{done.num_steps or '?'}",
        f"{done.used_s:.0f} s",
        str(done.num_preemptions or ""),
        done.detail,
    )


def _used(found: Utilisation) -> str:
    return (
        f"busy {found.busy_share:.1%}, in steps {found.steps_share:.1%}, idle with jobs waiting {found.idle_s:.1f} s, "
        f"nothing to run {found.empty_s:.0f} s"
    )


def _run(queue: Queue, args: argparse.Namespace) -> int:
    from train.assembly import assemble
    from train.commands.run_progress import RunProgress
    from train.scheduler.slot import Slot
    from train.scheduler.training import TrainingJob

    console = Console(stderr=True)
    home = home_of(args)
    with until_told() as told, RunProgress(console) as progress:
        run_job = TrainingJob(lambda recipe: assemble(recipe, home, console), progress.step)
        slot = Slot(
            queue, run_job, name=args.slot, quantum_s=args.quantum_seconds, is_told=lambda: bool(told)
        )
        slot.run()
        while args.watch and not told:
            slot.wait(POLL_S)
            slot.run()
    print(_used(utilisation(queue.turns().get(args.slot, []))))
    return 130 if told else 0


def _cancel(queue: Queue, args: argparse.Namespace) -> int:
    queue.cancel(args.job)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("queue", ABOUT, EXAMPLES)
    verbs = made.add_subparsers(dest="verb", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--queue", type=Path, required=True, metavar="DIR", help="the queue's directory")
    add = verbs.add_parser("add", parents=[where], help="put a recipe into the queue")
    add.add_argument("recipe", metavar="RECIPE", help="a shipped recipe, or a .toml file")
    add.add_argument("--id", help="of the job; from the recipe's name and the time where absent")
    add.add_argument("--priority", type=int, default=0, help="more is sooner")
    add.add_argument("--owner", default="default", help="among equals every owner gets the same time")
    add.add_argument(
        "--deadline",
        type=datetime.fromisoformat,
        metavar="TIME",
        help="ISO 8601, local time where it has no zone",
    )
    add.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    verbs.add_parser("list", parents=[where], help="show every job, and what the slots did with their time")
    run = verbs.add_parser("run", parents=[where], help="be a slot until every job is over")
    run.add_argument("--watch", action="store_true", help="wait for more when there is nothing left")
    run.add_argument("--slot", default="0", metavar="NAME", help="where several run at once: a name for each")
    run.add_argument("--quantum-seconds", type=float, default=QUANTUM_S, help="a turn among equals")
    add_home_option(run)
    cancel = verbs.add_parser(
        "cancel", parents=[where], help="stop a job at its next border, or before it begins"
    )
    cancel.add_argument("job", metavar="JOB")
    return made
