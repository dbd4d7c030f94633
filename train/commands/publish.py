"""`tierwise train publish`: a run's policy into the registry, as a difference to its base."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from serving.bringup.progress import ConsoleReport
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser

ABOUT = """\
Publish the policy of a run's last checkpoint as what it differs in from its base, with recipe, audits of its domains
and the run's last scores. Serving makes the whole model of it at the first use; an alias is enough.
"""
EXAMPLES = """\
examples:
  tierwise train publish runs/r2 --name full-policy
  tierwise train publish runs/r2 --name full-policy --alias full@candidate
  tierwise train publish runs/r2 --name full-policy --quantization Q5_0

To release it with the code, copy <home>/registry/artifacts/NAME/VERSION to serving/released/policy.
"""
QUANTIZATIONS = ("Q4_0", "Q5_0", "Q8_0")


def main(argv: list[str]) -> int:
    """Run `tierwise train publish argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _publish(args))


def _publish(args: argparse.Namespace) -> int:
    from train.publish import Wishes, publish

    wishes = Wishes(
        name=args.name,
        alias=parse_alias(args.alias) if args.alias else None,
        licence=args.licence,
        quantization=args.quantization,
    )
    store = Store(home_of(args) / "registry")
    print(publish(args.run, store, wishes, ConsoleReport(Console(stderr=True))).reference)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("publish", ABOUT, EXAMPLES)
    made.add_argument("run", type=Path, metavar="RUN", help="the run's directory")
    made.add_argument("--name", required=True, help="of the artifact")
    made.add_argument("--alias", metavar="NAME@LABEL", help="let an alias point at it")
    made.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="Q4_0",
        help="of the difference, where whole weights moved (default Q4_0)",
    )
    made.add_argument("--licence", metavar="SPDX", help="the base's where absent")
    add_home_option(made)
    return made
