"""`tierwise route forecast`: what the router thinks of every prompt in a file, without asking an engine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from router.arms import Arm
from router.difficulty import DifficultyModel
from router.outcome_table import view_of
from serving.commands.options import add_settings_options, settings_from
from serving.gateway.arms import arms_of
from serving.gateway.router_artifact import load_difficulty
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from serving.settings_sources import SettingsError

ABOUT = """\
Say of every prompt in FILE how likely each arm is to answer it rightly, as the gateway would forecast it: a JSON line
in ({"prompt": …}; other members are ignored, so that a file of prompts or of outcomes will do), a JSON line out, in the
same order. Arms are told weakest first. Which model forecasts, and why that one, goes to stderr.
"""
EXAMPLES = """\
examples:
  tierwise route forecast prompts.jsonl
  echo '{"prompt": "What is 17 + 25?"}' | tierwise route forecast -
  tierwise route forecast prompts.jsonl --set router.artifact=./router.npz
"""


class PromptError(Exception):
    """A line holds no prompt, or the file cannot be read."""


def main(argv: list[str]) -> int:
    """Forecast. 0 done, 1 where a line is no prompt, 2 where the settings or the router cannot be used."""
    args = _parser().parse_args(argv)
    try:
        settings = settings_from(args)
        loaded = load_difficulty(settings, Store(settings.home / "registry"))
        print(f"tierwise: {loaded.told}", file=sys.stderr)
        arms = sorted(arms_of(settings), key=lambda arm: (arm.strength, arm.effort))
        for prompt in prompts_in(_lines(args.file)):
            print(json.dumps(told(loaded.model, arms, prompt)))
    except (SettingsError, RegistryError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    except PromptError as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    return 0


def told(model: DifficultyModel, arms: Sequence[Arm], prompt: str) -> dict[str, Any]:
    """The forecast of a chat that is this prompt and nothing else; arms stay in their order."""
    forecasts = model.forecast(view_of(prompt), arms)
    return {
        "probabilities": {arm.name: round(forecasts[arm.name].success_probability, 6) for arm in arms},
        "num_output_tokens": {arm.name: round(forecasts[arm.name].num_output_tokens, 1) for arm in arms},
        "is_supported": all(each.is_supported for each in forecasts.values()),
        "version": model.version,
    }


def prompts_in(lines: Iterable[str]) -> Iterator[str]:
    """The prompt of each line; empty lines are passed over.

    Raises:
        PromptError: a line has none.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            prompt = json.loads(line)["prompt"]
        except (ValueError, LookupError, TypeError):
            prompt = None
        if not isinstance(prompt, str):
            raise PromptError(f'line {number} holds no prompt; write it as {{"prompt": "…"}}')
        yield prompt


def _lines(file: str) -> Iterable[str]:
    if file == "-":
        return sys.stdin
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{file} cannot be read ({error}); name a file of JSON lines") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route forecast",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="JSON lines; - reads standard input")
    add_settings_options(parser)
    return parser
