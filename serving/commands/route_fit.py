"""`tierwise route fit`: from outcomes to a difficulty model, as one artifact that the router decides by."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from router.artifact_header import ArtifactError, ArtifactHeader
from router.fit_config import FitConfig, FitRefusedError
from serving.bringup.router_release import LICENCE
from serving.commands.options import settings_from
from serving.commands.outcomes_file import OutcomesFileError
from serving.commands.outcomes_source import RELEASED, read_table
from serving.commands.route_fit_run import fit_table, publish_fitted
from serving.commands.route_fit_views import print_header, summary_json
from serving.gateway.embedding import WORDLLAMA
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
        config = FitConfig(penalty=args.penalty, num_folds=args.folds, seed=args.seed)
        data, header = fit_table(table, origin, config, embedding=args.embedding)
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


def _publish(args: argparse.Namespace, data: bytes, header: ArtifactHeader) -> ArtifactReference:
    settings = settings_from(args)
    store = Store(settings.home / "registry")
    name, alias = args.publish
    return publish_fitted(
        store,
        data,
        header,
        name=name,
        alias=alias,
        parents=tiers_fitted_on(header.models, settings, store),
        licence=args.licence or (LICENCE if args.outcomes == RELEASED else OWN_LICENCE),
    )


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
        type=publication,
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
    how.add_argument("--folds", type=fold_count, default=default.num_folds, help="default %(default)s")
    how.add_argument(
        "--seed", type=int, default=default.seed, help="of the deal to folds (default %(default)s)"
    )
    parser.set_defaults(assignments=[])
    return parser


def publication(text: str) -> tuple[str, AliasReference | None]:
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


def fold_count(text: str) -> int:
    """A number of folds as an argument."""
    if not text.isdecimal() or not 2 <= int(text) <= 50:
        raise argparse.ArgumentTypeError("a whole number from 2 to 50")
    return int(text)
