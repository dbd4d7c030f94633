"""`tierwise bench engine`: how fast an engine is on this machine, and, with --tune, which settings make it faster.

The parts: `tuning.space` (what may be turned), `tuning.servers` and `tuning.load` (what is started, how it is
measured), `tuning.evidence` (what is beyond noise), `tuning.search`, `tuning.report`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from loadtests.engine_options import engine_fault, parser
from loadtests.machine import package_version, this_machine
from loadtests.tuning.estimate import climb_s, confirm_s
from loadtests.tuning.evidence import interval
from loadtests.tuning.figures import Figures, Objective
from loadtests.tuning.report import Subject, as_json, render, toml
from loadtests.tuning.search import EngineDown, OpenEngine, ReferenceDown, Search
from loadtests.tuning.servers import (
    LlamaCppServers,
    VllmServers,
    describe,
    tier_config,
    vllm_argv,
)
from loadtests.tuning.space import (
    VLLM_CPU_KV_GIB,
    VLLM_CPU_KV_SPACE,
    Knob,
    Setting,
    allowed,
    llamacpp_space,
    vllm_cpu_space,
    vllm_gpu_space,
)
from loadtests.tuning.weights import weights_bytes, weights_sha256

LLAMACPP_START_S: Final = 5.0
VLLM_START_S: Final = 60.0
"""What a start is taken to last before one was seen."""
VLLM_PORT: Final = 8000
"""In the tier that is written for a server that runs by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One engine with one model, ready to be started."""

    space: tuple[Knob, ...]
    open_engine: OpenEngine
    weights: Path
    """A file or a directory, or nothing of this machine."""
    engine: str
    start_s: float


def main(argv: Sequence[str]) -> int:
    """Run `tierwise bench engine argv…`; 0 done, 1 failed, 2 for wrong use, 130 interrupted."""
    args = parser().parse_args(argv)
    if fault := engine_fault(args):
        return _refuse(fault)
    if args.tune and not args.dry_run and args.out.exists():
        return _refuse(f"{args.out} exists: name another file with --out")
    with tempfile.TemporaryDirectory(prefix="tierwise-engine-") as name:
        try:
            bench = _bench(args, Path(name))
            if args.dry_run:
                return _show_plan(bench, args)
            return _tune(bench, args) if args.tune else _measure(bench, args)
        except ValueError as error:
            return _refuse(str(error))
        except (EngineDown, ReferenceDown) as error:
            print(f"tierwise bench engine: {error}", file=sys.stderr)
            return 1


def _bench(args: argparse.Namespace, directory: Path) -> Bench:
    fixed = dict(args.fixed)
    limits: dict[str, Any] = {"only": args.only, "fixed": fixed, "allows_lossy": args.allow_lossy}
    if args.engine == "vllm":
        is_gpu = args.device == "gpu"
        servers = VllmServers(args.model, fixed, python=args.python, is_gpu=is_gpu, directory=directory)
        return Bench(
            space=allowed(vllm_gpu_space() if is_gpu else vllm_cpu_space(), **limits),
            open_engine=servers.open,
            weights=Path(args.model),
            engine=f"vLLM of {args.python}, on {args.device.upper()}",
            start_s=VLLM_START_S,
        )
    described = describe(args.model, fixed, directory)
    return Bench(
        space=allowed(llamacpp_space(described.defaults), **limits),
        open_engine=LlamaCppServers(described, fixed, directory).open,
        weights=described.model,
        engine=f"llama.cpp of {package_version('xllamacpp')}",
        start_s=LLAMACPP_START_S,
    )


def _show_plan(bench: Bench, args: argparse.Namespace) -> int:
    size = weights_bytes(bench.weights)
    climb = climb_s(bench.space, size, start_s=bench.start_s) / 60
    confirm = confirm_s(size, start_s=bench.start_s) / 60
    if args.json:
        space = {knob.name: {"default": knob.default, "tried": knob.candidates} for knob in bench.space}
        told = {"space": space, "climb_min": climb, "confirm_min": confirm, "limit_min": args.minutes}
        print(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return 0
    for knob in bench.space:
        tried = ", ".join(str(value) for value in knob.candidates)
        print(f"  {knob.name:<26} default {str(knob.default) or '–':<8} tried {tried}")
    print(
        f"\n{_num_candidates(bench.space)} candidates: about {climb:.0f} min where none pays, and {confirm:.0f} min to "
        f"confirm what was found; a guess from {size / 2**20:,.0f} MiB of weights. --minutes {args.minutes:g}"
        + (": not all will have their turn" if climb + confirm > args.minutes else " suffices")
    )
    return 0


def _measure(bench: Bench, args: argparse.Namespace) -> int:
    measured = asyncio.run(_figures(bench.open_engine, args.rounds, random.Random(args.seed)))
    found = {each: interval([one.figure(each) for one in measured]) for each in Objective}
    if args.json:
        told = {
            "machine": this_machine(),
            "engine": bench.engine,
            "num_rounds": args.rounds,
            "figures": {each.value: found[each] for each in Objective},
        }
        print(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return 0
    print(f"{this_machine().line()}\n{args.model} on {bench.engine}, medians of {args.rounds} rounds")
    for objective, each in found.items():
        bounds = "" if each.low is None else f"  ({each.low:.4g} to {each.high:.4g})"
        print(f"  {objective:<12} {each.value:>8.4g} {objective.unit}{bounds}")
    return 0


async def _figures(open_engine: OpenEngine, num_rounds: int, rng: random.Random) -> list[Figures]:
    async with open_engine({}) as engine:
        return [await engine.figures(rng.randrange(1 << 30)) for _ in range(num_rounds)]


def _tune(bench: Bench, args: argparse.Namespace) -> int:
    began_s = time.monotonic()

    def tell(line: str) -> None:
        elapsed_s = time.monotonic() - began_s
        print(f"[{elapsed_s / 60:5.1f} of {args.minutes:g} min] {line}", file=sys.stderr, flush=True)

    search = Search(
        bench.space,
        bench.open_engine,
        objective=args.objective,
        allows_lossy=args.allow_lossy,
        deadline_s=began_s + 60 * args.minutes,
        clock=time.monotonic,
        rng=random.Random(args.seed),
        tell=tell,
    )
    try:
        asyncio.run(search.run())
    except KeyboardInterrupt:
        _write(bench, args, search)
        return 130
    except (EngineDown, ReferenceDown):
        if search.findings.trials:
            _write(bench, args, search)
        raise
    _write(bench, args, search)
    return 0


def _write(bench: Bench, args: argparse.Namespace, search: Search) -> None:
    subject = Subject(
        model=args.model,
        model_sha256=weights_sha256(bench.weights),
        engine=bench.engine,
        machine=this_machine().line(),
        day=datetime.now(UTC).date(),
        objective=args.objective,
        num_candidates=_num_candidates(bench.space),
    )
    found = search.findings
    setting: Setting = {**dict(args.fixed), **found.best}
    if args.engine == "vllm":
        engine = {"type": "external", "urls": [f"http://127.0.0.1:{VLLM_PORT}"], "model": "tuned"}
        tier = {"engine": engine, "price": {"input": 1.0, "output": 4.0}}
        memory: Setting = {VLLM_CPU_KV_SPACE: VLLM_CPU_KV_GIB} if args.device == "cpu" else {}
        command = vllm_argv(args.python, args.model, {**memory, **setting}, port=VLLM_PORT)
        text = toml(found, subject, {"tiers": {args.tier: tier}}, command=command)
    else:
        text = toml(found, subject, tier_config(args.tier, args.model, setting))
    args.out.write_text(text)
    if args.json:
        print(orjson.dumps(as_json(found, subject), option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(render(found, subject))
    print(f"written: {args.out}", file=sys.stderr)


def _num_candidates(space: Sequence[Knob]) -> int:
    return sum(len(knob.candidates) for knob in space)


def _refuse(why: str) -> int:
    print(f"tierwise bench engine: {why}", file=sys.stderr)
    return 2
