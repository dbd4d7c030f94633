"""Whether a real engine takes a candidate, and how fast it is there beside the full model, in one run.

The candidate is brought up, asked a handful of prompts by its own chat template, and once each number of streams; what
goes wrong there, an answer without a token too, is its fault. Then the full model is brought up beside it, and both
write in turn, alone and at each other number of streams, which goes first changing from round to round: what else the
machine does disturbs both alike. What waits sleeps. The rate counts tokens of answers over the time from the first
request to the last answer, prompts included; the median over rounds is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp

from serving.engines.base import Endpoint, Engine, EngineCapabilities, EngineError
from serving.engines.brought_up import brought_up, new_session

PROMPTS: Final = (
    "What is 17 + 25?",
    "Name three colours.",
    "Write a sentence about the sea.",
    "Is 91 a prime number?",
)
BEGINNING: Final = "Rain fell on the hills all night, and in the morning the river had "
"""What timed answers go on from, a number behind it."""
MAX_ANSWER_TOKENS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is asked."""

    nums_streams: Sequence[int] = (1, 16)
    num_tokens: int = 64
    """Of a timed answer, neither more nor less."""
    num_rounds: int = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One engine."""

    engine: str
    fault: str
    """Why the candidate cannot be served there; empty where it can."""
    candidate: Mapping[int, float]
    """Streams → tokens a second; empty where there is a fault."""
    full: Mapping[int, float]
    """The same of the full model; empty where it was not asked for."""


@dataclass(frozen=True, slots=True)
class _Up:
    endpoint: Endpoint
    capabilities: EngineCapabilities


def try_out(
    name: str,
    engine: Engine,
    candidate: Path,
    full: Path | None,
    load: Load,
    logs: Path,
    environ: Mapping[str, str],
) -> Trial:
    """Try one engine.

    Args:
        name: of the engine.
        engine: starts one server for each of the two.
        candidate: a file or directory that this engine loads.
        full: the same of the full model; None times the candidate alone.
        load: how much.
        logs: a directory for the servers' output.
        environ: the caller's.

    Raises:
        EngineError: the full model cannot be served; the candidate's faults are told, not raised.
    """
    return asyncio.run(_try_out(name, engine, candidate, full, load, logs, environ))


async def _try_out(
    name: str,
    engine: Engine,
    candidate: Path,
    full: Path | None,
    load: Load,
    logs: Path,
    environ: Mapping[str, str],
) -> Trial:
    is_taken = False
    async with new_session() as session:
        try:
            async with brought_up(
                engine, candidate, logs / "candidate.log", environ, name="candidate"
            ) as found:
                up = {"candidate": _Up(*found)}
                for prompt in PROMPTS:
                    await _answer(session, up["candidate"], prompt)
                await _warm(session, up["candidate"], load)
                is_taken = True
                if full is None:
                    return Trial(name, "", (await _race(session, up, load))["candidate"], {})
                async with brought_up(engine, full, logs / "full.log", environ, name="full") as found:
                    up["full"] = _Up(*found)
                    await _warm(session, up["full"], load)
                    rates = await _race(session, up, load)
                return Trial(name, "", rates["candidate"], rates["full"])
        except EngineError as error:
            if is_taken:
                raise
            return Trial(name, str(error), {}, {})


async def _warm(session: aiohttp.ClientSession, up: _Up, load: Load) -> None:
    for num_streams in load.nums_streams:
        await _rate(session, up, num_streams, load.num_tokens)


async def _race(
    session: aiohttp.ClientSession, up: Mapping[str, _Up], load: Load
) -> dict[str, dict[int, float]]:
    """Tokens a second of each, by number of streams."""
    taken: dict[str, dict[int, list[float]]] = {who: {num: [] for num in load.nums_streams} for who in up}
    for number in range(load.num_rounds):
        order = list(up)[:: 1 if number % 2 == 0 else -1]
        for num_streams in load.nums_streams:
            for who in order:
                taken[who][num_streams].append(await _rate(session, up[who], num_streams, load.num_tokens))
    return {who: {num: median(rates) for num, rates in each.items()} for who, each in taken.items()}


async def _rate(session: aiohttp.ClientSession, up: _Up, num_streams: int, num_tokens: int) -> float:
    body = {"max_tokens": num_tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    began = time.perf_counter()
    told = await asyncio.gather(
        *(
            _post(session, up, "completions", {**body, "prompt": f"{BEGINNING}{number}"})
            for number in range(num_streams)
        )
    )
    elapsed_s = time.perf_counter() - began
    return sum(_num_tokens(each, up.endpoint) for each in told) / elapsed_s


async def _answer(session: aiohttp.ClientSession, up: _Up, prompt: str) -> None:
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": MAX_ANSWER_TOKENS,
        "temperature": 0,
    }
    told = await _post(session, up, "chat/completions", body)
    if _num_tokens(told, up.endpoint) < 1:
        raise EngineError(f"it says nothing to {prompt!r}; look at its chat template")


def _num_tokens(told: Mapping[str, Any], endpoint: Endpoint) -> int:
    try:
        return int(told["usage"]["completion_tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(f"{endpoint.url} does not say how long its answer is ({error!r})") from None


async def _post(
    session: aiohttp.ClientSession, up: _Up, call: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    endpoint = up.endpoint
    url = f"{endpoint.url}/v1/{call}"
    headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    try:
        async with session.post(
            url, json={"model": up.capabilities.model_id, **body}, headers=headers
        ) as response:
            if response.status != 200:
                said = (await response.text())[:300]
                raise EngineError(f"{url} answered {response.status}: {said}; look at the engine's log")
            told: dict[str, Any] = await response.json()
            return told
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineError(f"{url} cannot be reached ({error!r}); look at the engine's log") from error
