"""What the sub-verbs of `tierwise train` share: how their parsers look, and options that several of them take."""

from __future__ import annotations

import argparse
from pathlib import Path

from serving.settings_sources import load_settings


def new_parser(verb: str, about: str, examples: str, *, under: str = "train") -> argparse.ArgumentParser:
    """The parser of a sub-verb of `under`; both texts are shown as they are."""
    return argparse.ArgumentParser(
        prog=f"tierwise {under} {verb}",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_home_option(parser: argparse.ArgumentParser) -> None:
    """Add --home, for `home_of`."""
    parser.add_argument("--home", metavar="DIR", help="where the registry lives")


def home_of(args: argparse.Namespace) -> Path:
    """Where the registry lives: --home, or what the settings say.

    Raises:
        SettingsError: as `load_settings`.
    """
    return load_settings(None, {"home": args.home} if args.home else {}).home


def add_race_options(parser: argparse.ArgumentParser) -> None:
    """Add what a benchmark of sampling asks of a checkpoint, and how often."""
    parser.add_argument("directory", type=Path, help="a checkpoint in Hugging Face's form")
    parser.add_argument("--prompts", type=int, default=8, help="of a step")
    parser.add_argument("--answers", type=int, default=8, help="to each prompt")
    parser.add_argument("--max-tokens", type=int, default=16, help="of an answer")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, help="torch's own choice where absent")
