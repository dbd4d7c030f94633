"""Which prompts `tierwise route collect` asks: made from a seed, the released records of reasoning-gym, or a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import router
from router.prompts import DOMAINS, LEVELS, Item, prompt_set
from router.prompts_recorded import mixed
from serving.commands.prompts_file import read_prompts

T = TypeVar("T", str, int)

OWN: Final = "own"
REASONING_GYM: Final = "reasoning-gym"
RECORDS: Final = Path(router.__file__).parent / "data" / "reasoning_gym_prompts.jsonl.gz"
DEFAULT_NUM: Final = 800
"""Of own prompts, which have no end of their own."""


class PromptOptionsError(ValueError):
    """The options ask for prompts that there are not."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What says which prompts to ask; absent ones are None."""
    prompts = parser.add_argument_group("prompts")
    prompts.add_argument(
        "--prompts",
        default=OWN,
        metavar=f"{OWN}|{REASONING_GYM}|FILE",
        help=f"{OWN}: made from the seed (default); {REASONING_GYM}: records that are shipped; "
        "or a file of such records: {domain, level, prompt, answer}, one a line",
    )
    prompts.add_argument(
        "--n", type=positive, metavar="N", help=f"number of prompts (default {DEFAULT_NUM}; of records all)"
    )
    prompts.add_argument(
        "--seed", type=natural, metavar="N", help=f"another seed gives other {OWN} prompts (default 0)"
    )
    prompts.add_argument("--domains", type=names, metavar="A,B", help="default: all")
    prompts.add_argument("--levels", type=_levels, metavar="0,1", help="0, the easiest, to 2 (default: all)")


def chosen(args: argparse.Namespace) -> list[Item]:
    """The prompts that the options ask for, every domain and level in turn.

    Raises:
        PromptOptionsError: there are no such domains or levels, or a seed is given for records.
        PromptsFileError: the file of records cannot be read.
    """
    if args.prompts == OWN:
        domains = _among(args.domains, tuple(DOMAINS), "domain")
        levels = _among(args.levels, LEVELS, "level")
        return prompt_set(args.n or DEFAULT_NUM, seed=args.seed or 0, domains=domains, levels=levels)
    if args.seed is not None:
        raise PromptOptionsError(f"--seed makes {OWN} prompts; those of {args.prompts} are what they are")
    items = read_prompts(RECORDS if args.prompts == REASONING_GYM else Path(args.prompts))
    domains = _among(args.domains, tuple(dict.fromkeys(item.domain for item in items)), "domain")
    levels = _among(args.levels, tuple(sorted({item.level for item in items})), "level")
    wanted = [item for item in items if item.domain in domains and item.level in levels]
    if not wanted:
        raise PromptOptionsError(f"{args.prompts} has no prompts of these domains at these levels")
    return mixed(wanted, args.n or len(wanted))


def shortfall(args: argparse.Namespace, num_items: int) -> str:
    """What to say where there are fewer prompts than asked for; else empty."""
    wanted = args.n or (DEFAULT_NUM if args.prompts == OWN else num_items)
    return f"these domains and levels have {num_items} different prompts" if num_items < wanted else ""


def names(text: str) -> tuple[str, ...]:
    """Names, separated by commas, as an argument."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise argparse.ArgumentTypeError("names, separated by commas")
    return found


def natural(text: str) -> int:
    """A whole number as an argument."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("a whole number of at least 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 as an argument."""
    if (number := natural(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _levels(text: str) -> tuple[int, ...]:
    return tuple(natural(name) for name in names(text))


def _among(asked: Sequence[T] | None, there: Sequence[T], kind: str) -> Sequence[T]:
    """What is asked for, all where nothing is."""
    if unknown := [one for one in asked or () if one not in there]:
        raise PromptOptionsError(f"no {kind} {unknown[0]!r}; there are {', '.join(map(str, there))}")
    return there if asked is None else asked
