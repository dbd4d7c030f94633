"""`tierwise train export`: a policy as a whole model, in Hugging Face's form or as GGUF."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from serving.bringup.progress import ConsoleReport
from serving.registry.store import Store
from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser

ABOUT = """\
Write a policy whole and merged: a run's last checkpoint, or an artifact of the registry. The directory is what
transformers and vLLM load; with --gguf it holds one file in single precision, which llama.cpp loads.
"""
EXAMPLES = """\
examples:
  tierwise train export runs/r2 --out ./merged
  tierwise train export runs/r2 --out ./merged-gguf --gguf
  tierwise train export full-policy:1f0c2b9d4e5a --out ./merged
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train export argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _export(args))


def _export(args: argparse.Namespace) -> int:
    from train.export import export

    store, report = Store(home_of(args) / "registry"), ConsoleReport(Console(stderr=True))
    print(export(args.policy, args.out, store, report, is_gguf=args.gguf))
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("export", ABOUT, EXAMPLES)
    made.add_argument("policy", metavar="RUN", help="a run's directory, or an artifact of the registry")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="must not exist, or be empty")
    made.add_argument("--gguf", action="store_true", help="one GGUF file instead")
    add_home_option(made)
    return made
