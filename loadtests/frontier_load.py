"""Asks one way of a frontier its prompts, some clients at a time, and writes down what came of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from loadtests.alarms import Alarms
from loadtests.stream_client import ChatClient, into
from loadtests.timeline import Timeline
from router.prompts import Item

TIMEOUT_S: Final = 300.0
"""After which an unfinished request counts as failed."""


class LedgerGapError(Exception):
    """What was answered is not all in the ledger; the message has the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to have requests answered."""

    name: str
    model: str
    """What is asked for: a tier's name, or `auto`."""
    target: float | None
    """The share of the strongest tier that the gateway is to hold; None where the client names the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How a way is asked, besides what."""

    concurrency: int
    """Clients, each of which asks its next as soon as it has its last answer."""
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one prompt. Times are seconds, as the client saw them."""

    prompt_id: str
    is_right: bool
    tier: str | None
    reason: str | None
    """Why the gateway chose it."""
    router: str | None
    """The version of what decided."""
    cost: float
    """By the ledger: of what was used, all attempts together."""
    ttft_s: float | None
    tpot_s: float | None
    """None of one token."""
    e2e_s: float
    num_output_tokens: int
    text: str
    error: str | None
    """Why there is no whole answer."""


async def ask(
    url: str, items: Sequence[Item], *, model: str, load: Load, on_answer: Callable[[], None]
) -> list[Timeline]:
    """Ask for each item's answer as a stream, at temperature 0; their timelines, in the order of the items."""
    alarms = Alarms(asyncio.get_running_loop())
    client = ChatClient(url, alarms=alarms, max_connections=load.concurrency, timeout_s=TIMEOUT_S)
    timelines: dict[int, Timeline] = {}
    left = iter(enumerate(items))

    async def work() -> None:
        for place, item in left:
            timelines[place] = await _one(client, chat(item.prompt, model, load.max_tokens))
            on_answer()

    try:
        async with asyncio.TaskGroup() as clients:
            for _ in range(load.concurrency):
                clients.create_task(work())
    finally:
        await client.close()
        alarms.close()
    return [timelines[place] for place in range(len(items))]


def chat(prompt: str, model: str, max_tokens: int) -> bytes:
    """The body of a request."""
    return orjson.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )


def answers_of(
    items: Sequence[Item], timelines: Sequence[Timeline], decisions: Mapping[str, Mapping[str, Any]]
) -> tuple[Answer, ...]:
    """The items' answers, judged.

    Args:
        items: what was asked.
        timelines: of the requests, in the order of the items.
        decisions: the ledger's, by request id. A request that never reached the gateway has none.

    Raises:
        LedgerGapError: the ledger lacks requests that were answered, so that nobody knows what they cost.
    """
    lacking = [each for each in timelines if each.error is None and each.request_id not in decisions]
    if lacking:
        raise LedgerGapError(
            f"the gateway's ledger lacks {len(lacking)} of {len(timelines)} answers: it did not end in time; run it "
            "again on a machine with less to do"
        )
    return tuple(
        _answer(item, timeline, decisions.get(timeline.request_id or "", {}))
        for item, timeline in zip(items, timelines, strict=True)
    )


def _answer(item: Item, timeline: Timeline, decision: Mapping[str, Any]) -> Answer:
    return Answer(
        prompt_id=item.prompt_id,
        is_right=timeline.error is None and item.passes(timeline.text),
        tier=timeline.tier,
        reason=decision.get("reason"),
        router=decision.get("artifact_version"),
        cost=decision.get("cost") or 0.0,
        ttft_s=timeline.ttft_s,
        tpot_s=timeline.tpot_s,
        e2e_s=timeline.e2e_s,
        num_output_tokens=timeline.num_output_tokens or 0,
        text=timeline.text,
        error=timeline.error,
    )


async def _one(client: ChatClient, body: bytes) -> Timeline:
    ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
    client.send(client.request(body), scheduled_s=time.monotonic(), is_streaming=True, on_end=into(ended))
    return await ended
