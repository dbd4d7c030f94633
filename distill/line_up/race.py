"""Tokens a second of all models in one engine, in turn; a measurement a round.

All servers are up at once; in each round everyone writes, alone and at each other number of streams, who goes first
changing from round to round: what else the machine does disturbs all alike, and who waits sleeps. A rate counts tokens
of answers over the time from the first request to the last answer, as `load_test` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from distill.gate import EngineName
from distill.line_up.cells import Cells
from distill.line_up.entrants import Ready
from distill.load_test import BEGINNING, Load
from serving.engines.base import Endpoint, Engine, EngineCapabilities, EngineError
from serving.engines.brought_up import brought_up, new_session
from serving.settings_sources import environment

Round = Mapping[str, Mapping[int, float]]
"""Label → streams → tokens a second."""
Up = tuple[Endpoint, EngineCapabilities]


def race(
    name: EngineName,
    engine: Engine,
    entrants: Sequence[Ready],
    load: Load,
    cells: Cells,
    logs: Path,
    *,
    threads: int | None = None,
    on_round: Callable[[], None] = lambda: None,
) -> tuple[Round, ...]:
    """The rounds, in order. Nothing comes up where all of them are known.

    Args:
        name: of the engine.
        engine: starts one server for each.
        entrants: who.
        load: how much.
        cells: has the rounds that were taken already, and gets the rest.
        logs: a directory for the servers' output.
        threads: that the engine was made with.
        on_round: called when a round is done, also where it was already.

    Raises:
        EngineError: one does not come up, or does not answer.
    """
    keys = [
        round_key(name, entrants, load, threads=threads, number=number) for number in range(load.num_rounds)
    ]
    found = {number: read_round(told) for number, key in enumerate(keys) if (told := cells.find(key))}
    for _ in found:
        on_round()
    missing = [number for number in range(load.num_rounds) if number not in found]

    def keep(number: int, taken: Round) -> None:
        found[number] = taken
        cells.keep(keys[number], taken)
        on_round()

    if missing:
        models = {each.label: each.file if name == "llama.cpp" else each.start for each in entrants}
        logs.mkdir(parents=True, exist_ok=True)
        asyncio.run(_race(engine, models, load, missing, logs, keep))
    return tuple(found[number] for number in range(load.num_rounds))


def round_key(
    name: EngineName, entrants: Sequence[Ready], load: Load, *, threads: int | None, number: int
) -> dict[str, Any]:
    """Of one round: other models beside them, and the figures are others."""
    return {
        "kind": "rates",
        "engine": name,
        "entrants": [[each.label, each.key] for each in entrants],
        "streams": list(load.nums_streams),
        "tokens": load.num_tokens,
        "threads": threads,
        "round": number,
    }


def read_round(told: Mapping[str, Mapping[str, float]]) -> Round:
    """From JSON, in which numbers of streams are text."""
    return {label: {int(num): rate for num, rate in rates.items()} for label, rates in told.items()}


async def _race(
    engine: Engine,
    models: Mapping[str, Path],
    load: Load,
    numbers: Sequence[int],
    logs: Path,
    keep: Callable[[int, Round], None],
) -> None:
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        up: dict[str, Up] = {}
        for label, path in models.items():
            server = brought_up(engine, path, logs / f"{label}.log", environment(), name=label)
            up[label] = await stack.enter_async_context(server)
            for num_streams in load.nums_streams:  # warms it up
                await tokens_per_s(session, up[label], num_streams, load.num_tokens)
        for number in numbers:
            order = in_turn(list(up), number)
            taken: dict[str, dict[int, float]] = {label: {} for label in up}
            for num_streams in load.nums_streams:
                for label in order:
                    rate = await tokens_per_s(session, up[label], num_streams, load.num_tokens)
                    taken[label][num_streams] = rate
            keep(number, taken)


def in_turn(labels: Sequence[str], number: int) -> list[str]:
    """Who writes when in a round: another begins each time, and every second round runs the other way."""
    first = (number // 2) % len(labels)
    order = [*labels[first:], *labels[:first]]
    return order if number % 2 == 0 else order[::-1]


async def tokens_per_s(session: aiohttp.ClientSession, up: Up, num_streams: int, num_tokens: int) -> float:
    """Of so many answers written at once, each of so many tokens.

    Raises:
        EngineError: the server refuses, cannot be reached, or does not say how long its answers are.
    """
    began = time.perf_counter()
    told = await asyncio.gather(
        *(_ask(session, up, f"{BEGINNING}{number}", num_tokens) for number in range(num_streams))
    )
    return sum(told) / (time.perf_counter() - began)


async def _ask(session: aiohttp.ClientSession, up: Up, prompt: str, num_tokens: int) -> int:
    """Tokens of its answer."""
    endpoint, capabilities = up
    body = {
        "model": capabilities.model_id,
        "prompt": prompt,
        "max_tokens": num_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    url = f"{endpoint.url}/v1/completions"
    try:
        async with session.post(url, json=body, headers=headers) as response:
            if response.status != 200:
                said = (await response.text())[:300]
                raise EngineError(f"{url} answered {response.status}: {said}; look at the engine's log")
            return int((await response.json())["usage"]["completion_tokens"])
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineError(f"{url} cannot be reached ({error!r}); look at the engine's log") from error
    except (LookupError, TypeError, ValueError) as error:
        raise EngineError(f"{url} does not say how long its answer is ({error!r})") from None
