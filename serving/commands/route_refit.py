"""`tierwise route refit`: fits the router on the tiers as they are now: starts them, asks them, fits and publishes."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from router.artifact_header import ArtifactError
from router.fit_config import FitConfig, FitRefusedError
from router.prompts import Item
from serving.bringup.progress import ConsoleReport
from serving.commands.options import add_settings_options, settings_from
from serving.commands.outcomes_file import OutcomesFile, OutcomesFileError
from serving.commands.outcomes_source import read_table
from serving.commands.prompts_file import PromptsFileError
from serving.commands.route_collect import add_answer_options, ask_gateway, sampling_of
from serving.commands.route_collect_client import CollectError
from serving.commands.route_collect_prompts import PromptOptionsError, add_options, chosen, shortfall
from serving.commands.route_collect_run import Progress, missing
from serving.commands.route_fit import OWN_LICENCE, fold_count, publication
from serving.commands.route_fit_run import fit_table, publish_fitted
from serving.commands.route_refit_figures import decider, fitted_row, row_of, standing
from serving.commands.route_refit_gateway import OwnGatewayError, own_gateway
from serving.commands.route_refit_plan import plan
from serving.commands.route_refit_subject import (
    Subject,
    parents_of,
    pinned,
    refuse_others,
    sign,
    subject_of,
)
from serving.commands.route_refit_views import print_plan, print_rows, refit_json
from serving.gateway.router_artifact import STABLE
from serving.registry.durable import write_atomically
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from serving.settings import Settings
from serving.settings_sources import SettingsError

ABOUT = """\
Fit the router on the tiers as they are now. A gateway of its own, with the tiers of the settings and the versions that
their aliases point at, is started on a free loopback port, asked what `tierwise route collect` asks, and ended. Then
the router is fitted as `tierwise route fit` does, published with those versions as its parents, and compared with what
decided before. Outcomes are kept, so that a refit that was stopped goes on where it was. A gateway that serves is left
alone, but its engines share the machine.
"""

EXAMPLES = """\
examples:
  tierwise route refit --dry-run                                  what it would ask, and how long that would take
  tierwise route refit                                            fit, and publish as router@candidate
  tierwise route refit --publish router@stable                    and a gateway that starts after it decides by it
  tierwise route refit --set tiers.fast.model=fast@candidate      of tiers that are not served yet
  tierwise route refit --prompts questions.jsonl --max-tokens 64  on prompts of one's own
"""

FAILURES: Final = (
    SettingsError,
    RegistryError,
    PromptsFileError,
    OutcomesFileError,
    OwnGatewayError,
    CollectError,
    FitRefusedError,
    ArtifactError,
)
"""What ends a refit with one line that names the remedy."""


def main(argv: list[str]) -> int:
    """Refit. 0 done; 1 where something is missing or no honest model can be made; 2 for wrong use, 130 interrupted."""
    parser = _parser()
    args = parser.parse_args(argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    try:
        refit = _prepare(args, chosen(args))
        return _dry_run(refit) if args.dry_run else _run(refit)
    except PromptOptionsError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("tierwise: stopped; the same command goes on where it was", file=sys.stderr)
        return 130
    except FAILURES as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tierwise: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refit:
    """One refit: of what, on which prompts, and where its files are."""

    args: argparse.Namespace
    items: Sequence[Item]
    configured: Settings
    pinned: Settings
    """With the versions of the tiers' models in place of aliases."""
    subject: Subject
    store: Store

    @property
    def arms(self) -> list[str]:
        return list(self.subject.arms)

    @property
    def directory(self) -> Path:
        return Path(self.args.keep or self.configured.home / "refits" / self.subject.digest)

    @property
    def outcomes(self) -> Path:
        return Path(self.args.outcomes or self.directory / "outcomes.jsonl")

    @property
    def log(self) -> Path:
        return self.directory / "gateway.log"


def _prepare(args: argparse.Namespace, items: Sequence[Item]) -> _Refit:
    configured = settings_from(args)
    store = Store(configured.home / "registry")
    settings = pinned(configured, store)
    subject = subject_of(settings, store, sampling_of(args))
    if len(subject.arms) < 2:
        raise SettingsError(
            f"{', '.join(subject.arms)} is the only arm, so that there is nothing to choose between; configure another"
        )
    refit = _Refit(
        args=args, items=items, configured=configured, pinned=settings, subject=subject, store=store
    )
    refuse_others(refit.outcomes, subject)
    return refit


def _dry_run(refit: _Refit) -> int:
    kept = (refit.configured.home / "refits").glob("*/outcomes.jsonl")
    latest_first = sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)
    name, alias = refit.args.publish
    planned = plan(refit.items, refit.arms, refit.outcomes, latest_first)
    print_plan(planned, refit.subject, refit.outcomes, str(alias or name))
    return 0


def _run(refit: _Refit) -> int:
    args, (name, alias) = refit.args, refit.args.publish
    before = standing(refit.configured, refit.store, alias)
    refit.directory.mkdir(parents=True, exist_ok=True)
    times = [time.monotonic()]
    progress = _collect(refit)
    times.append(time.monotonic())
    if progress.failures:
        return _say_missing(refit, progress)
    table, origin = read_table(refit.outcomes)
    data, header = fit_table(table, origin, FitConfig(num_folds=args.folds), embedding="none")
    times.append(time.monotonic())
    artifact = refit.directory / "router.npz"
    write_atomically(artifact, data)
    parents = parents_of(refit.pinned)
    published = publish_fitted(
        refit.store, data, header, name=name, alias=alias, parents=parents, licence=args.licence
    )
    rows, after = [row_of(one, table) for one in before], fitted_row(header)
    asking_s, fitting_s = (later - earlier for earlier, later in itertools.pairwise(times))
    if args.json:
        kept = [str(published), str(artifact), str(refit.outcomes)]
        seconds = {"asking": asking_s, "fitting": fitting_s}
        print(refit_json(rows, after, kept=kept, num_asked=progress.num_done, seconds=seconds))
        return 0
    print(f"asked {progress.num_done:,} in {asking_s:.0f} s, fitted in {fitting_s:.0f} s")
    print_rows(rows, after)
    print(f"kept: {published}, {artifact}, {refit.outcomes}")
    print(f"a gateway that starts now decides by {decider(refit.configured, refit.store).told}")
    if alias != STABLE:
        print(f"to have it decide by the new one: tierwise registry alias {STABLE}={alias or published}")
    return 0


def _collect(refit: _Refit) -> Progress:
    """Ask what is missing, of a gateway that is started for it; of none where nothing is."""
    args, report, progress = refit.args, ConsoleReport(Console(stderr=True)), Progress()
    if told := shortfall(args, len(refit.items)):
        report.say(told)

    async def ask(file: OutcomesFile) -> None:
        async with own_gateway(refit.pinned, log=refit.log, report=report) as url:
            await ask_gateway(
                url,
                refit.items,
                file,
                progress,
                arms=refit.arms,
                key=None,
                sampling=sampling_of(args),
                concurrency=args.concurrency,
            )

    with OutcomesFile(refit.outcomes) as file:
        if file.rows:
            refuse_others(refit.outcomes, refit.subject)  # again, now that nobody else writes it
        else:
            sign(refit.outcomes, refit.subject)
        if num := len(missing(refit.items, refit.arms, file.rows)):
            report.say(f"starting the tiers to ask them {num:,} times; outcomes go to {refit.outcomes}")
            asyncio.run(ask(file))
        else:
            report.say(f"every answer is in {refit.outcomes}")
    return progress


def _say_missing(refit: _Refit, progress: Progress) -> int:
    for failure in dict.fromkeys(progress.failures):
        print(f"tierwise: {progress.failures.count(failure)} without an answer: {failure}", file=sys.stderr)
    print(
        f"tierwise: not fitted; the same command asks for what is missing, and `tierwise route fit {refit.outcomes}` "
        f"fits without it; the gateway's log is {refit.log}",
        file=sys.stderr,
    )
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route refit",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--publish",
        type=publication,
        default="router@candidate",
        metavar="NAME[@LABEL]",
        help="publish it, and let this alias point at it (default %(default)s)",
    )
    parser.add_argument(
        "--licence", default=OWN_LICENCE, metavar="SPDX", help="of the artifact (default %(default)s)"
    )
    parser.add_argument(
        "--outcomes", type=Path, metavar="FILE", help="collect into this file, or go on with it"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="where outcomes, artifact and the gateway's log are kept (default: HOME/refits/, by the tiers)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be asked and how long it takes; ask nothing"
    )
    parser.add_argument("--folds", type=fold_count, default=FitConfig().num_folds, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_options(parser)
    add_answer_options(parser)
    add_settings_options(parser)
    return parser
