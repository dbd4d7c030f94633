"""`tierwise train base`: bring a base model in."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from serving.bringup.errors import BringupError
from serving.bringup.progress import ConsoleReport
from serving.engines.base import EngineError
from serving.registry.errors import RegistryError
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from serving.settings_sources import SettingsError
from train.commands.options import add_home_option, home_of, new_parser
from train.model.shape import UnsupportedModelError

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
    from train.base import Wishes, bring_in
    from train.checkpoints.directory import CheckpointError

    report = ConsoleReport(Console(stderr=True))
    try:
        home = home_of(args)
        alias = parse_alias(args.alias) if args.alias else None
        wishes = Wishes(name=args.name, licence=args.licence, alias=alias)
        artifact = bring_in(args.source, Store(home / "registry"), wishes, report)
    except (
        CheckpointError,
        UnsupportedModelError,
        BringupError,
        EngineError,
        RegistryError,
        SettingsError,
    ) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    print(artifact.reference)
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
