"""How long a step takes in llama.cpp as this gateway runs it, by the number of answers written at once.

An engine is started on the model with as many slots as are asked for; streams write at once, and each is told by the
server how long a token took it. The first tokens, while others' prompts are read, count among the others; answers are
long enough that they are few. Sampling and sending are in the times. Taken for a verification such a step is dear
rather than cheap: each of its tokens has a past of its own to read and a stream to be sent on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp

from serving.engines.base import Endpoint, EngineError
from serving.engines.brought_up import brought_up, new_session
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.settings_sources import environment

NUM_TOKENS: Final = 48
"""Of an answer that is timed."""
NUM_REPETITIONS: Final = 3
CONTEXT_TOKENS: Final = 512
PROMPT: Final = "Rain fell on the hills all night, and in the morning the river had "


def engine_steps(
    model: Path, widths: Sequence[int], log: Path, *, threads: int | None = None, num_tokens: int = NUM_TOKENS
) -> dict[int, float]:
    """Width → seconds a step, the median over repetitions.

    Args:
        model: a GGUF file.
        widths: of steps; the largest is the number of slots.
        log: where the engine's output goes.
        threads: of the engine; as `llamacpp_plan` chooses where None.
        num_tokens: of each timed answer.

    Raises:
        EngineError: it does not start, or does not say how long it took.
    """
    settings = LlamaCppSettings(
        threads=threads, slots=max(widths), context_tokens=CONTEXT_TOKENS, prompt_cache_mib=0
    )
    return asyncio.run(_measure(LlamaCppEngine(settings), model, widths, log, num_tokens))


async def _measure(
    engine: LlamaCppEngine, model: Path, widths: Sequence[int], log: Path, num_tokens: int
) -> dict[int, float]:
    async with (
        brought_up(engine, model, log, environment(), name="measured") as (endpoint, _),
        new_session() as session,
    ):
        await step_s(session, endpoint, 1, num_tokens)  # warms up
        taken: dict[int, list[float]] = {width: [] for width in widths}
        for _ in range(NUM_REPETITIONS):  # in turn: what disturbs the machine disturbs all widths
            for width in widths:
                taken[width].append(await step_s(session, endpoint, width, num_tokens))
        return {width: median(each) for width, each in taken.items()}


async def step_s(session: aiohttp.ClientSession, endpoint: Endpoint, width: int, num_tokens: int) -> float:
    """Seconds a token of so many answers written at once; the median over them.

    Raises:
        EngineError: the engine does not answer, or does not say how long it took.
    """
    told = await asyncio.gather(
        *(_ask(session, endpoint, f"{PROMPT}{each}", num_tokens) for each in range(width))
    )
    try:
        return median(
            each["timings"]["predicted_ms"] / each["timings"]["predicted_n"] / 1000 for each in told
        )
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise EngineError(
            f"the engine at {endpoint.url} does not say how long a token took ({error!r}); take a newer llama.cpp"
        ) from None


async def _ask(
    session: aiohttp.ClientSession, endpoint: Endpoint, prompt: str, num_tokens: int
) -> dict[str, Any]:
    body = {
        "prompt": prompt,
        "max_tokens": num_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    url = f"{endpoint.url}/v1/completions"
    try:
        async with session.post(url, json=body, headers=headers) as response:
            if response.status != 200:
                said = (await response.text())[:300]
                raise EngineError(f"{url} answered {response.status}: {said}; look at the engine's log")
            answer: dict[str, Any] = await response.json()
            return answer
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineError(f"{url} cannot be reached ({error!r}); look at the engine's log") from error
