"""`tierwise bench speculation`: which drafts make a model's answers come sooner, where, and whether they stay the same.

The parts: `speculation.drafts` (what is tried), `speculation.prompts`, `speculation.answers` (how engines are asked),
`speculation.race`, `speculation.findings` (what is the same, what pays), `speculation.report`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtests.engine_options import engine_fault
from loadtests.frontier_prompts import PromptsError, recorded
from loadtests.machine import package_version, this_machine
from loadtests.speculation.answers import Dialect, LlamaCpp, Vllm
from loadtests.speculation.drafts import Draft, llamacpp_setting, vllm_setting
from loadtests.speculation.findings import Pair, Predictions, paying, rows_of
from loadtests.speculation.predictions import read_predictions
from loadtests.speculation.prompts import Prompt, prompts_of
from loadtests.speculation.race import ALONE, race
from loadtests.speculation.report import Report, as_json, markdown, render
from loadtests.speculation_options import parser
from loadtests.tuning.load import ServedEngine
from loadtests.tuning.search import EngineDown
from loadtests.tuning.servers import LlamaCppServers, VllmServers, describe

LARGEST_FILE_OF_PROMPTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One engine, ready to be started without a draft (`ALONE`) and with each."""

    open_engine: Callable[[dict[str, Any]], AbstractAsyncContextManager[ServedEngine]]
    settings: dict[str, dict[str, Any]]
    dialect: Dialect
    engine: str


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench speculation argv…`; 0 a draft pays somewhere, 1 none does or a failure, 2 wrong use."""
    args = parser().parse_args(argv)
    drafts: list[Draft] = args.drafts
    if fault := engine_fault(args):
        return _refuse(fault)
    if len({each.name for each in drafts}) < len(drafts):
        return _refuse("two drafts have one name: write NAME=KIND,…")
    try:
        predictions = _predictions(args)
        prompts = _prompts(args)
    except (ValueError, PromptsError) as error:
        return _refuse(str(error))
    if args.dry_run:
        return _show_plan(args, prompts)
    with tempfile.TemporaryDirectory(prefix="tierwise-speculation-") as name:
        try:
            bench = _bench(args, Path(name))
            pairs = asyncio.run(_measure(bench, args, prompts))
        except EngineDown as error:
            print(f"tierwise bench speculation: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    rows = [
        row
        for draft in drafts
        for row in rows_of(
            draft.name,
            pairs[draft.name],
            predictions.get(draft.name, {}),
            max_drafts=draft.max_tokens,
            max_gap=args.max_gap,
        )
    ]
    report = Report(
        machine=this_machine(),
        engine=bench.engine,
        model=args.model,
        drafts=drafts,
        rows=rows,
        pairs=pairs,
        max_tokens=args.max_tokens,
        num_rounds=args.rounds,
        max_gap=args.max_gap,
    )
    _print(report, args)
    return 0 if paying(rows) else 1


def _predictions(args: argparse.Namespace) -> dict[str, Predictions]:
    drafts = {each.name: each for each in args.drafts}
    found: dict[str, Predictions] = {}
    for name, path in args.predictions:
        if name not in drafts:
            raise ValueError(f"--predictions {name}=…: there is no such draft, only {', '.join(drafts)}")
        found[name] = read_predictions(path, num_drafts=drafts[name].max_tokens)
    return found


def _prompts(args: argparse.Namespace) -> list[Prompt]:
    if args.prompts is None:
        return prompts_of(args.domains, args.per_domain, seed=args.seed)
    by_domain: dict[str, list[Prompt]] = {}
    for item in recorded(args.prompts)(LARGEST_FILE_OF_PROMPTS):
        by_domain.setdefault(item.domain, []).append(Prompt(item.domain, item.prompt))
    return [each for prompts in by_domain.values() for each in prompts[: args.per_domain]]


def _bench(args: argparse.Namespace, directory: Path) -> Bench:
    fixed = dict(args.fixed)
    if args.engine == "vllm":
        fixed = {"enable-prefix-caching": False, **fixed}  # a prompt is read each time that it is asked
        servers = VllmServers(args.model, fixed, python=args.python, is_gpu=False, directory=directory)
        return Bench(
            open_engine=servers.open,
            settings={ALONE: {}} | {each.name: vllm_setting(each) for each in args.drafts},
            dialect=Vllm(),
            engine=f"vLLM of {args.python}",
        )
    fixed = {"slots": 1, **fixed}
    described = describe(args.model, fixed, directory)
    settings: dict[str, dict[str, Any]] = {ALONE: {}}
    for draft in args.drafts:
        quantization = {"quantization": str(draft.members.get("quantization", "Q4_0"))}
        file = None if draft.model is None else str(describe(draft.model, quantization, directory).model)
        settings[draft.name] = llamacpp_setting(draft, file)
    return Bench(
        open_engine=LlamaCppServers(described, fixed, directory).open,
        settings=settings,
        dialect=LlamaCpp(),
        engine=f"llama.cpp of {package_version('xllamacpp')}",
    )


async def _measure(bench: Bench, args: argparse.Namespace, prompts: list[Prompt]) -> dict[str, list[Pair]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    async with AsyncExitStack() as stack:
        engines: dict[str, ServedEngine] = {}
        for name, setting in bench.settings.items():
            engines[name] = await stack.enter_async_context(bench.open_engine(setting))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("answers", total=len(prompts) * len(engines) * args.rounds)
            return await asyncio.to_thread(
                race,
                engines,
                bench.dialect,
                prompts,
                max_tokens=args.max_tokens,
                num_rounds=args.rounds,
                rng=random.Random(args.seed),
                on_answer=lambda: progress.advance(task),
            )


def _show_plan(args: argparse.Namespace, prompts: list[Prompt]) -> int:
    domains = list(dict.fromkeys(each.domain for each in prompts))
    num_answers = len(prompts) * (len(args.drafts) + 1) * args.rounds
    if args.json:
        told = {
            "drafts": {each.name: {"type": each.kind, **each.members} for each in args.drafts},
            "prompts": [{"domain": each.domain, "prompt": each.text} for each in prompts],
            "num_answers": num_answers,
            "max_tokens": args.max_tokens,
        }
        print(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return 0
    for draft in args.drafts:
        print(f"  {draft.name:<24} {draft.kind}, {draft.max_tokens} tokens a round")
    print(
        f"{len(prompts)} prompts of {', '.join(domains)}: {num_answers} answers of up to {args.max_tokens} tokens, "
        f"on {len(args.drafts) + 1} servers"
    )
    return 0


def _print(report: Report, args: argparse.Namespace) -> None:
    if args.json:
        print(orjson.dumps(as_json(report), option=orjson.OPT_INDENT_2).decode())
    elif args.markdown:
        print(markdown(report))
    else:
        Console().print(render(report))


def _refuse(why: str) -> int:
    print(f"tierwise bench speculation: {why}", file=sys.stderr)
    return 2
