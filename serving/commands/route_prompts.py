"""`tierwise route prompts`: prompts as `collect` asks them, into a file, to train on or to forecast."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from router.prompts import Item
from serving.commands.outcomes_file import OutcomesFileError, read_unpacked
from serving.commands.prompts_file import PromptsFileError
from serving.commands.route_collect_prompts import PromptOptionsError, add_options, chosen
from serving.registry.durable import write_atomically

ABOUT = """\
Write the prompts that `tierwise route collect` would ask with these options, a JSON line each: {domain, level, prompt},
without answers. With --without, texts that stand in other files (of outcomes, or of prompts) are left out, so that what
is trained on is not what is measured on.
"""
EXAMPLES = """\
examples:
  tierwise route prompts --n 4000 --seed 20261201 --without outcomes.jsonl --out everyday.jsonl.gz
  tierwise route prompts --domains sums,capitals --out - | tierwise route forecast -
"""


def main(argv: list[str]) -> int:
    """Write them. 0 done, 1 where a file cannot be read or written, 2 for wrong use."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        known = {text for path in args.without for text in texts_of(path)}
        left = [item for item in chosen(args) if item.prompt not in known]
        _write(args.out, lines_of(left))
    except PromptOptionsError as error:
        parser.error(str(error))
    except (OutcomesFileError, PromptsFileError, OSError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    print(f"tierwise: {len(left)} prompts", file=sys.stderr)
    return 0


def lines_of(items: Sequence[Item]) -> bytes:
    """A line each."""
    return b"".join(
        orjson.dumps(
            {"domain": item.domain, "level": item.level, "prompt": item.prompt},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for item in items
    )


def texts_of(path: Path) -> set[str]:
    """The member `prompt` of every line of a file, plain or `.gz`.

    Raises:
        OutcomesFileError: it cannot be read.
        PromptsFileError: a line has none.
    """
    found = set()
    for number, line in enumerate(read_unpacked(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found.add(str(orjson.loads(line)["prompt"]))
        except (ValueError, LookupError, TypeError):
            raise PromptsFileError(f"{path}:{number}: no object with a `prompt`") from None
    return found


def _write(out: Path, data: bytes) -> None:
    """The same bytes for the same prompts: what is packed has no time in it."""
    if str(out) == "-":
        sys.stdout.buffer.write(data)
        return
    write_atomically(out, gzip.compress(data, mtime=0) if out.suffix == ".gz" else data)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierwise route prompts",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where to; .gz packs it; - is standard output"
    )
    parser.add_argument(
        "--without",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="leave out what is asked there; may be repeated",
    )
    add_options(parser)
    return parser
