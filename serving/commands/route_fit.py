"""`tierwise route fit`: from outcomes to a difficulty model, as one artifact that the router decides by."""

from __future__ import annotations

import argparse
import getpass
import itertools
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from router.artifact import to_bytes
from router.artifact_fit import Origin, fit_artifact, num_steps
from router.artifact_header import ArtifactError, ArtifactHeader
from router.fit_config import FitConfig, FitRefusedError
from router.outcome_table import OutcomeTable
from router.prepared import prepare
from serving.bringup.progress import ConsoleReport
from serving.bringup.router_release import LICENCE, describe_router, publish_router
from serving.commands.options import settings_from
from serving.commands.outcomes_file import OutcomesFileError
from serving.commands.outcomes_source import RELEASED, read_table
from serving.commands.route_fit_views import print_header, summary_json
from serving.gateway.embedding import WORDLLAMA, load_embedding
from serving.gateway.router_artifact import tiers_fitted_on
from serving.registry.durable import write_atomically
from serving.registry.errors import InvalidReferenceError, RegistryError
from serving.registry.reference import NAME_PATTERN, AliasReference, ArtifactReference, parse
from serving.registry.store import Store
from serving.settings_sources import SettingsError

ABOUT = """\
Fit the difficulty model: for each arm, the calibrated probability that it answers a request well, and the tokens that
it will write. Outcomes come from `tierwise route collect`, or are lines with `prompt`, `subject`, `weak_correct` and
`strong_correct`. Without a file the outcomes of the released tiers are taken, so that the command alone makes the
released artifact again, bit for bit on a machine of the same kind. Figures are of prompts that were not fitted on:
first no near-duplicate of them was, then no prompt of their domain.
"""

EXAMPLES = """\
examples:
  tierwise route fit                                              only say how well it would do
  tierwise route fit --out router.npz                             the released artifact, made again
  tierwise route fit outcomes.jsonl --publish router@stable       and serve it: [router] artifact = "auto" takes it
  tierwise route fit outcomes.jsonl --publish router@canary --arms fast,full,full-think
  tierwise route fit routellm_outcomes.jsonl.gz --set gsm8k --json
"""

OWN_LICENCE: Final = "LicenseRef-Proprietary"


def main(argv: list[str]) -> int:
    """Fit. 0 done; 1 where no honest model can be made or it cannot be kept; 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        table, origin = read_table(args.outcomes, selection=args.set, arms=args.arms)
        data, header = _fit(table, origin, args)
        if args.out is not None:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(args.out, data)
        published = _publish(args, data, header) if args.publish is not None else None
    except (OutcomesFileError, FitRefusedError, ArtifactError, RegistryError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tierwise: {args.out}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    kept = [str(place) for place in (args.out, published) if place is not None]
    if args.json:
        print(summary_json(header, kept=kept, size_bytes=len(data)))
    else:
        print_header(header, kept=kept, size_bytes=len(data))
    return 0


def _fit(table: OutcomeTable, origin: Origin, args: argparse.Namespace) -> tuple[bytes, ArtifactHeader]:
    embed = None
    if args.embedding == WORDLLAMA:
        name, embed = load_embedding(WORDLLAMA)
        origin = replace(origin, embedding=name)
    config = FitConfig(penalty=args.penalty, num_folds=args.folds, seed=args.seed)
    prepared = prepare(table, embed)
    report, steps = ConsoleReport(Console(stderr=True)), itertools.count(1)
    label = f"fitting on {len(table)} prompts, and again without each fold"
    with report.track(label, num_steps(prepared, config), "tensors") as advance:
        model, header = fit_artifact(prepared, config, origin, on_step=lambda: advance(next(steps)))
    return to_bytes(model, header), header


def _publish(args: argparse.Namespace, data: bytes, header: ArtifactHeader) -> ArtifactReference:
    settings = settings_from(args)
    store = Store(settings.home / "registry")
    name, alias = args.publish
    licence = args.licence or (LICENCE if args.outcomes == RELEASED else OWN_LICENCE)
    parents = tiers_fitted_on(header.models, settings, store)
    description = describe_router(header, name=name, parents=parents, licence=licence)
    published = publish_router(store, data, description).reference
    if alias is not None:
        reason = f"fitted on {header.num_prompts} prompts"
        store.aliases.point(alias, published, by=getpass.getuser(), reason=reason)
    return published


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route fit",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "outcomes",
        nargs="?",
        type=Path,
        default=RELEASED,
        metavar="OUTCOMES",
        help="JSON lines, plain or .gz",
    )
    parser.add_argument("--set", metavar="NAME", help="of a file with `set` in its lines, the set to take")
    parser.add_argument(
        "--arms",
        type=_names,
        metavar="A,B",
        help="weakest first (default: all there are, the cheapest first)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    kept = parser.add_argument_group("what becomes of it")
    kept.add_argument(
        "--out", type=Path, metavar="FILE", help="write the artifact; an old one is replaced at once"
    )
    kept.add_argument(
        "--publish",
        type=_published,
        metavar="NAME[@LABEL]",
        help="publish it, and let this alias point at it",
    )
    kept.add_argument("--licence", metavar="SPDX", help=f"of the published artifact (default {OWN_LICENCE})")
    kept.add_argument("--config", type=Path, metavar="FILE", help="the configuration whose tiers were asked")
    kept.add_argument("--home", metavar="DIR", help="where the registry lives")
    how = parser.add_argument_group("how to fit")
    how.add_argument(
        "--embedding",
        choices=("none", WORDLLAMA),
        default="none",
        help="read texts with an embedding too; whoever serves it needs the package (default %(default)s)",
    )
    default = FitConfig()
    how.add_argument(
        "--penalty", type=_positive, default=default.penalty, help="more is smoother (default %(default)s)"
    )
    how.add_argument("--folds", type=_count, default=default.num_folds, help="default %(default)s")
    how.add_argument(
        "--seed", type=int, default=default.seed, help="of the deal to folds (default %(default)s)"
    )
    parser.set_defaults(assignments=[])
    return parser


def _published(text: str) -> tuple[str, AliasReference | None]:
    """A name, and the alias of it that is to be moved, if any."""
    if re.fullmatch(NAME_PATTERN, text):
        return text, None
    try:
        reference = parse(text)
    except InvalidReferenceError:
        reference = None
    if not isinstance(reference, AliasReference):
        raise argparse.ArgumentTypeError(f"{text!r} is no name; write router, or router@stable")
    return reference.name, reference


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("names, separated by commas")
    return names


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= 50:
        raise argparse.ArgumentTypeError("a whole number from 2 to 50")
    return int(text)
