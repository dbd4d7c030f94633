"""`tierwise distill evaluate`: what a candidate keeps of the full model, and what engines make of it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from distill.commands.failures import reported
from distill.commands.measuring import add_measuring_options, questions_of, trying_of
from distill.commands.options import new_parser
from train.commands.options import add_home_option

if TYPE_CHECKING:
    from distill.subject import Server

ABOUT = """\
Ask CANDIDATE and the full model the same held-out items of domains, and say what the candidate keeps of its verified
score: by domain, and of all, with intervals of a bootstrap in which an item's two scores stay together; how long its
answers are, and how far its next tokens are from the full model's.

CANDIDATE is a run of `tierwise distill student`, a checkpoint's directory, a GGUF file, or an artifact; what `tierwise
distill quantize` wrote for vLLM is computed here too, by the numbers that its integers stand for. With --url a server
answers in its place. --load brings both up in the engines and times them in turn. The tables go to stderr, JSON to
stdout and to --out, which `publish` reads.
"""
EXAMPLES = """\
examples:
  tierwise distill evaluate runs/student --against full@stable
  tierwise distill evaluate runs/student/packed/served.gguf --against full@stable --load --out evaluation.json
  tierwise distill evaluate ./small/full-w4a16 --against full@stable --domains chain_sum,gcd
  tierwise distill evaluate ./awq --against full@stable --url http://127.0.0.1:8000 --domains chain_sum,gcd
  tierwise distill evaluate runs/student --against full@stable --items 8 --drafts 3
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill evaluate argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _evaluate(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("evaluate", ABOUT, EXAMPLES)
    made.add_argument("candidate", metavar="CANDIDATE", help="what is evaluated")
    add_measuring_options(made)
    made.add_argument(
        "--drafts",
        type=int,
        default=0,
        metavar="γ",
        help="also say how often the full model takes its drafts",
    )
    made.add_argument("--load", action="store_true", help="bring both up in the engines, and time them")
    made.add_argument(
        "--quantization",
        default="Q4_0",
        metavar="TYPE",
        help="of the candidate in llama.cpp, where it is no GGUF (default Q4_0)",
    )
    made.add_argument("--url", metavar="URL", help="of a server that answers in the candidate's place")
    made.add_argument("--model", metavar="ID", help="there; the first that it lists where absent")
    made.add_argument("--api-key-file", type=Path, metavar="FILE", help="holds the server's key")
    made.add_argument("--out", type=Path, metavar="FILE", help="write the JSON there too")
    add_home_option(made)
    return made


def _evaluate(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from distill.commands.evaluate_views import score_table, summary, trial_table
    from distill.examine import examine
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.commands.options import home_of

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    console = Console(stderr=True)
    store, report = Store(home_of(args) / "registry"), ConsoleReport(console)
    dossier = examine(
        args.candidate,
        args.against,
        store,
        report,
        questions=questions_of(args, args.candidate, store, report),
        trying=trying_of(args, quantization=args.quantization) if args.load else None,
        server=_server(args),
        on_side=lambda side: report.say(f"asking {side}"),
    )
    if dossier.comparison is not None:
        console.print(score_table(dossier.comparison))
        for line in summary(dossier.comparison):
            report.say(line)
    if dossier.trials:
        console.print(trial_table(dossier.trials))
    text = json.dumps(asdict(dossier), indent=2) + "\n"
    sys.stdout.write(text)
    if args.out is not None:
        args.out.write_text(text, encoding="utf-8")
    return 0


def _server(args: argparse.Namespace) -> Server | None:
    from distill.subject import Server
    from serving.engines.base import Endpoint

    if args.url is None:
        return None
    key = args.api_key_file.read_text(encoding="utf-8").strip() if args.api_key_file else None
    return Server(Endpoint(url=args.url.rstrip("/"), api_key=key, keeps_connections=False), args.model)
