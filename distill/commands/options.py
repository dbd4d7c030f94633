"""What the sub-verbs of `tierwise distill` share: how their parsers look, and what they read models and texts with."""

from __future__ import annotations

import argparse
from pathlib import Path

from train.commands import options
from train.commands.options import add_home_option


def new_parser(verb: str, about: str, examples: str) -> argparse.ArgumentParser:
    """The parser of a sub-verb; both texts are shown as they are."""
    return options.new_parser(verb, about, examples, under="distill")


def add_text_options(parser: argparse.ArgumentParser, *, has_gguf: bool = True) -> None:
    """Add the model, what it is measured or trained on, and where the result goes; --gguf where there is a choice."""
    parser.add_argument("model", help="`smollm2`, a checkpoint's directory, or an artifact of the registry")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="must not exist, or be empty")
    parser.add_argument("--domains", default="", metavar="A,B", help="whose reference answers are read")
    parser.add_argument("--items", type=int, default=4, help="of each domain (default 4)")
    parser.add_argument(
        "--general", type=int, default=8, help="general prompts, with the model's own answers (default 8)"
    )
    parser.add_argument("--max-answer-tokens", type=int, default=48, help="of its own answers (default 48)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="torch's own choice where absent")
    if has_gguf:
        parser.add_argument("--gguf", action="store_true", help="write one GGUF file too, for llama.cpp")
    add_home_option(parser)
