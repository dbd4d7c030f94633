"""What verbs share: the options of settings, what happens when they are wrong, and how a sub-verb is set up."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serving.settings import Settings
from serving.settings_sources import load_settings, parse_value

SETTINGS_HELP = """\
Settings are resolved from defaults < one TOML file < environment < command line. The file is --config, else
$TIERWISE_CONFIG, else ./tierwise.toml, else the shipped default. Any leaf can be set either way:

  TIERWISE_GATEWAY__PORT=8001 tierwise serve
  tierwise serve --set gateway.port=8001 --set tiers.full.engine.threads=4
"""


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Add --config, --home and --set."""
    group = parser.add_argument_group("settings", "see `tierwise serve --help` for where settings come from")
    group.add_argument("--config", type=Path, metavar="FILE", help="a TOML configuration")
    group.add_argument("--home", metavar="DIR", help="where registry, ledger and keys live")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help="set one leaf of the tree",
    )


def add_sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, *, examples: str
) -> argparse.ArgumentParser:
    """A sub-verb's parser: one line about it in the list, the same as a sentence in its own help, then examples."""
    return verbs.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def settings_from(args: argparse.Namespace, extra: Mapping[str, Any] = {}) -> Settings:
    """The settings that the options resolve to.

    Args:
        args: parsed by a parser with `add_settings_options`.
        extra: dotted path → value, from a verb's own options; None is left out.

    Raises:
        SettingsError: as `load_settings`.
        SystemExit: a --set without `=`.
    """
    overrides: dict[str, Any] = {} if args.home is None else {"home": args.home}
    for assignment in args.assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise SystemExit(
                f"tierwise: --set {assignment}: write it as KEY=VALUE, for example --set gateway.port=8001"
            )
        overrides[key.strip()] = parse_value(text.strip())
    overrides |= {key: value for key, value in extra.items() if value is not None}
    return load_settings(args.config, overrides)
