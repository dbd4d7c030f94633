"""`tierwise train base`: bring a base model in."""

from __future__ import annotations

import argparse

from rich.console import Console

from serving.bringup.progress import ConsoleReport
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser

ABOUT = """\
Publish a base model of the Llama family as safetensors with its tokenizer and chat template, ready to be trained.
SOURCE is `smollm2` (the packaged one), a GGUF file, a directory in Hugging Face's form, an artifact of the registry,
or a model of the Hugging Face hub. GGUF weights become the single-precision numbers that they stand for.
"""
EXAMPLES = """\
examples:
  tierwise train base smollm2
  tierwise train base ./model.gguf --name mymodel --licence Apache-2.0
  tierwise train base ./checkpoint --licence MIT --alias mymodel-base@stable
  tierwise train base HuggingFaceTB/SmolLM2-360M-Instruct --licence Apache-2.0
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train base argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _bring_in(args))


def _bring_in(args: argparse.Namespace) -> int:
    from train.base import Wishes, bring_in

    alias = parse_alias(args.alias) if args.alias else None
    wishes = Wishes(name=args.name, licence=args.licence, alias=alias)
    store = Store(home_of(args) / "registry")
    print(bring_in(args.source, store, wishes, ConsoleReport(Console(stderr=True))).reference)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("base", ABOUT, EXAMPLES)
    made.add_argument("source", metavar="SOURCE", help="what to bring in")
    made.add_argument("--name", help="of the artifact; from the source where absent")
    made.add_argument("--licence", metavar="SPDX", help="needed where the source does not say it")
    made.add_argument("--alias", metavar="NAME@LABEL", help="let an alias point at it")
    add_home_option(made)
    return made
