"""`tierwise train domains export`: items as plain records, one a line, for `tierwise route collect --prompts FILE`."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from io import BytesIO
from pathlib import Path

from train.domains import audit as gate
from train.domains import short_answers

EXAMPLE = """\
examples:
  tierwise train domains export --out prompts.jsonl.gz        every domain whose answer is short and unique
  tierwise train domains export gcd lcm --count 40 --seed 3 --out prompts.jsonl
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the sub-verb takes."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="those known to have short answers where absent"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="JSON lines; packed where it ends in .gz"
    )
    parser.add_argument("--count", type=int, default=8, metavar="N", help="of each level (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.set_defaults(run=export)


def export(args: argparse.Namespace) -> int:
    """`export`: write the records; 1 where a domain may not train, has too few, or the file cannot be written."""
    if args.count < 1:
        print("tierwise: --count is at least 1", file=sys.stderr)
        return 2
    try:
        domains = gate.audited(args.names or short_answers.NAMES)
        made = list(short_answers.records(domains, count=args.count, seed=args.seed))
        write(args.out, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in made).encode())
    except (gate.UnauditedError, short_answers.NoShortAnswersError, OSError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({"num_records": len(made), "num_domains": len(domains), "out": str(args.out)}))
    else:
        print(f"{len(made)} records of {len(domains)} domains in {args.out}")
    return 0


def write(path: Path, data: bytes) -> None:
    """Write the file. A packed one has neither a name nor a time in it: the same data are the same bytes."""
    if path.suffix == ".gz":
        packed = BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            file.write(data)
        data = packed.getvalue()
    path.write_bytes(data)
