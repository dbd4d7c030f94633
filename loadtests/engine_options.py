"""The command line of `tierwise bench engine`."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

from loadtests.argument_types import above_zero, count
from loadtests.tuning.figures import Objective
from loadtests.tuning.space import Value

ABOUT = """\
Measures an engine on this machine: tokens/s of a lone stream, tokens/s of sixteen streams together, and the time to the
first token. With --tune it searches the engine's settings for what is faster here.

Each candidate is raced against the best so far: two servers, measured in turn with the same requests. It is left at
its second lost round. What is found is confirmed against the default on servers started anew for each round; only
what is better beyond noise, and answers the same at temperature 0, is taken. Else the default stays.

The machine must be otherwise idle: what else runs hides small gains.
"""
EXAMPLES = """\
examples:
  tierwise bench engine full@stable                                what it does by itself
  tierwise bench engine full@stable --tune --dry-run               what would be tried, and for how long
  tierwise bench engine full@stable --tune --objective streams=16 --out tuned.toml
  tierwise bench engine model.gguf --tune --only threads_alone,compute.flash_attention --minutes 5
  tierwise bench engine ./checkpoint --engine vllm --python .venv-vllm/bin/python --tune --minutes 90
"""


def parser() -> argparse.ArgumentParser:
    """The verb's parser."""
    made = argparse.ArgumentParser(
        prog="tierwise bench engine",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "model",
        metavar="MODEL",
        help="a registry reference or a GGUF file; for vLLM a checkpoint's directory, or a name that it finds",
    )
    add_engine(made)
    made.add_argument("--rounds", type=count, default=6, metavar="N", help="without --tune (default 6)")
    made.add_argument("--seed", type=int, default=0, help="of requests and orders (default 0)")
    made.add_argument("--json", action="store_true", help="print what was found as JSON")
    _add_tuning(made.add_argument_group("tuning"))
    made.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="of vLLM (default cpu)")
    return made


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add which engine is started, and what is laid down of its settings; `engine_fault` checks it."""
    parser.add_argument(
        "--engine", choices=("llamacpp", "vllm"), default="llamacpp", help="(default llamacpp)"
    )
    parser.add_argument("--python", type=Path, metavar="PATH", help="the interpreter that has vLLM")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=assignment,
        metavar="KEY=VALUE",
        dest="fixed",
        help="lay down a setting, for example slots=4; a leaf below tiers.NAME.engine, or an option of vLLM's server",
    )


def engine_fault(args: argparse.Namespace) -> str | None:
    """Why what `add_engine` reads cannot be; None where it can."""
    if (args.engine == "vllm") != (args.python is not None):
        return "--engine vllm and --python PATH, the interpreter that has it, go together"
    return None


def _add_tuning(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tune", action="store_true", help="search the settings")
    group.add_argument(
        "--objective",
        type=Objective,
        choices=list(Objective),
        default=Objective.ALONE,
        metavar="|".join(Objective),
        help="what is to become better (default alone)",
    )
    group.add_argument(
        "--minutes", type=above_zero, default=20.0, metavar="M", help="for all of it (default 20)"
    )
    group.add_argument(
        "--only", type=names, default=(), metavar="KNOB,…", help="turn only these (default all of them)"
    )
    group.add_argument(
        "--allow-lossy",
        action="store_true",
        help="also what changes answers: a rounded KV cache, other greedy answers",
    )
    group.add_argument(
        "--out", type=Path, default=Path("tuned.toml"), metavar="FILE", help="to write (default tuned.toml)"
    )
    group.add_argument("--tier", default="tuned", metavar="NAME", help="of the tier in it (default tuned)")
    group.add_argument(
        "--dry-run", action="store_true", help="only print the space and how long it would take"
    )


def assignment(text: str) -> tuple[str, Value]:
    """KEY=VALUE, the value as TOML has it; what is none is text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as KEY=VALUE, for example slots=4")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    if not isinstance(parsed, bool | int | str):
        raise argparse.ArgumentTypeError(f"{text!r}: a setting is a number, a text, or true or false")
    return key, parsed


def names(text: str) -> tuple[str, ...]:
    """Words between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
