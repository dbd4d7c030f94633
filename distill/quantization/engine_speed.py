"""Tokens a second of several models, each in the engine that it is for, one answer at a time, in turn.

GGUF files are in llama.cpp as this gateway runs it, directories in vLLM (`vllm_trial`), in bfloat16 as quantised ones
are written, whatever the checkpoint beside them is in. All servers are up at once, and each writes an answer in every
round, so that whatever else the machine does disturbs all of them alike; servers that wait sleep. The median over
rounds counts. In both engines a rate counts an answer's tokens over the time from the request to its end, the reading
of a short prompt included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final

from distill.gate import EngineName
from distill.line_up.race import Up, in_turn, tokens_per_s
from distill.quantization.report import Speed
from distill.vllm_trial import VllmTrial
from serving.engines.base import Engine, EngineError
from serving.engines.brought_up import brought_up, new_session
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.settings_sources import environment

NUM_ROUNDS: Final = 5
NUM_TOKENS: Final = 64
"""Of an answer that is timed."""
CONTEXT_TOKENS: Final = 512


def speeds(
    models: Sequence[Path],
    logs: Path,
    *,
    vllm_python: Path | None = None,
    threads: int | None = None,
    num_rounds: int = NUM_ROUNDS,
    num_tokens: int = NUM_TOKENS,
) -> dict[Path, Speed]:
    """Of each model; a server that does not come up is told, and the others are timed without it.

    Args:
        models: GGUF files, and directories.
        logs: a directory for the servers' output; made where it is missing.
        vllm_python: of an environment that has vLLM; directories are passed over where None.
        threads: of each server; its own choice where None.
        num_rounds: that are timed, after one that is not.
        num_tokens: of an answer.

    Raises:
        EngineError: one that came up does not answer.
    """
    engines: dict[Path, Engine] = {}
    for path in models:
        if path.is_file():
            settings = LlamaCppSettings(
                threads=threads, slots=1, context_tokens=CONTEXT_TOKENS, prompt_cache_mib=0
            )
            engines[path] = LlamaCppEngine(settings, num_sharing=len(models))
        elif vllm_python is not None:
            engines[path] = VllmTrial(
                vllm_python, num_streams=1, context_tokens=CONTEXT_TOKENS, dtype="bfloat16", threads=threads
            )
    logs.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_timed(engines, logs, num_rounds, num_tokens))


async def _timed(
    engines: dict[Path, Engine], logs: Path, num_rounds: int, num_tokens: int
) -> dict[Path, Speed]:
    found: dict[Path, Speed] = {}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        up: dict[str, Up] = {}
        for path, engine in engines.items():
            server = brought_up(engine, path, logs / f"{path.name}.log", environment(), name=path.name)
            try:
                up[str(path)] = await stack.enter_async_context(server)
            except EngineError as error:
                found[path] = Speed(_name(path), None, str(error))
        taken: dict[str, list[float]] = {label: [] for label in up}
        for number in range(num_rounds + 1):
            for label in in_turn(list(up), number) if up else ():
                rate = await tokens_per_s(session, up[label], 1, num_tokens)
                if number:
                    taken[label].append(rate)
        return found | {
            Path(label): Speed(_name(Path(label)), median(rates)) for label, rates in taken.items()
        }


def _name(path: Path) -> EngineName:
    return "llama.cpp" if path.is_file() else "vLLM"
