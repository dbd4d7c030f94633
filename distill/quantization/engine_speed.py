"""Tokens a second of several GGUF files in llama.cpp as this gateway runs it, one answer at a time, in turn.

All engines are up at once, and each writes an answer in every round, so that whatever else the machine does disturbs
all of them alike; engines that wait sleep. The median over rounds counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final

from distill.drafts.engine_steps import step_s
from serving.engines.brought_up import brought_up, new_session
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.settings_sources import environment

NUM_ROUNDS: Final = 5
NUM_TOKENS: Final = 64
"""Of an answer that is timed."""
CONTEXT_TOKENS: Final = 512


def tokens_per_s(
    models: Mapping[str, Path],
    logs: Path,
    *,
    threads: int | None = None,
    num_rounds: int = NUM_ROUNDS,
    num_tokens: int = NUM_TOKENS,
) -> dict[str, float]:
    """Of each GGUF file among the models; directories are for other engines, and passed over.

    Args:
        models: by name.
        logs: a directory for the engines' output; made where it is missing.
        threads: of each engine; as `llamacpp_plan` chooses where None.
        num_rounds: that are timed, after one that is not.
        num_tokens: of an answer.

    Raises:
        EngineError: one does not start, or does not say how long it took.
    """
    files = {name: path for name, path in models.items() if path.is_file()}
    if not files:
        return {}
    logs.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_in_turn(files, logs, threads, num_rounds, num_tokens))


async def _in_turn(
    files: Mapping[str, Path], logs: Path, threads: int | None, num_rounds: int, num_tokens: int
) -> dict[str, float]:
    settings = LlamaCppSettings(threads=threads, slots=1, context_tokens=CONTEXT_TOKENS, prompt_cache_mib=0)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        endpoints = {}
        for name, path in files.items():
            engine = LlamaCppEngine(settings, num_sharing=len(files))
            up = brought_up(engine, path, logs / f"{name}.log", environment(), name=name)
            endpoints[name], _ = await stack.enter_async_context(up)
        taken: dict[str, list[float]] = {name: [] for name in files}
        for timed in range(num_rounds + 1):
            for name, endpoint in endpoints.items():
                seconds = await step_s(session, endpoint, 1, num_tokens)
                if timed:
                    taken[name].append(seconds)
        return {name: 1 / median(each) for name, each in taken.items()}
