"""`tierwise distill draft export`: a trained head as the GGUF file that llama.cpp drafts with."""

from __future__ import annotations

import argparse
from pathlib import Path

from distill.commands.draft import new_action_parser
from distill.commands.failures import reported
from train.commands.options import add_home_option

ABOUT = """\
Write a head as GGUF. A tier on llama.cpp takes it as `draft = { type = "model", model = "head.gguf" }` beside the very
model that it was trained for, whose states it reads; for vLLM `draft train` has written it already.
"""
EXAMPLES = """\
examples:
  tierwise distill draft export runs/head/speculator --target full@stable --out head.gguf
  tierwise bench speculation full@stable --draft head=model,model=head.gguf
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill draft export argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _export(args))


def parser() -> argparse.ArgumentParser:
    """The action's parser."""
    from distill.drafts.gguf_head import MATRIX_TYPES

    made = new_action_parser("export", ABOUT, EXAMPLES)
    made.add_argument("head", metavar="HEAD", help="its directory: RUN/speculator")
    made.add_argument(
        "--target", required=True, metavar="NAME", help="an artifact, or a checkpoint's directory"
    )
    made.add_argument("--out", type=Path, required=True, metavar="FILE", help="to write; it must not exist")
    made.add_argument("--type", choices=MATRIX_TYPES, default="Q8_0", help="of matrices (default Q8_0)")
    add_home_option(made)
    return made


def _export(args: argparse.Namespace) -> int:
    from rich.console import Console

    from distill.drafts.gguf_head import save_gguf_head
    from distill.drafts.opened import open_head
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.base import locate
    from train.commands.options import home_of
    from train.model.weights import load_llama
    from train.run_directory import RunError

    if args.out.exists():
        raise RunError(f"{args.out} is there already; name another file")
    if not args.out.absolute().parent.is_dir():
        raise RunError(f"there is no directory {args.out.absolute().parent}; make it, or name another")
    store = Store(home_of(args) / "registry")
    start = locate(args.target, store, ConsoleReport(Console(stderr=True)))
    head = open_head(args.head, load_llama(start))
    save_gguf_head(head, args.out, start, matrices=args.type)
    print(args.out)
    return 0
