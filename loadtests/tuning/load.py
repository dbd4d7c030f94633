"""What an engine is measured with: one long prompt alone, then sixteen short ones at once; and its greedy answers.

Prompts are drawn anew for each round, so that no prefix is found again; both servers of a round get the same. Answers
are greedy and of a set length, whatever the model would say.
"""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from loadtests.alarms import Alarms
from loadtests.prompts import render_prompts
from loadtests.stream_client import CHAT_PATH, ChatClient
from loadtests.timeline import Timeline
from loadtests.tuning.figures import NUM_STREAMS, Figures
from loadtests.tuning.search import EngineDown

LONG_CHARS: Final = 1600
"""Of the lone prompt: some 400 tokens."""
SHORT_CHARS: Final = 200
ALONE_TOKENS: Final = 48
STREAM_TOKENS: Final = 24
GREEDY_TOKENS: Final = 48
GREEDY_PROMPTS: Final = (
    "Name the capitals of France, Japan and Brazil.",
    "Write a short story about a clock that runs backwards.",
    "Explain in a few sentences why the sky is blue.",
    "What is 17 times 23? Show each step.",
)
TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEngine:
    """A server that listens. Implements `search.Engine`."""

    url: str
    model: str
    """The name under which it serves."""
    api_key: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members of each request that this engine understands."""

    async def warm_up(self) -> None:
        """A first answer, which pays for what is done only once.

        Raises:
            EngineDown: it did not answer.
        """
        async with self._client() as client:
            await self._answered(client, [_prompt(LONG_CHARS, seed=0)], num_tokens=8)

    async def figures(self, seed: int) -> Figures:
        """Measure once: alone, then all streams. Each part on connections of its own.

        Raises:
            EngineDown: a request was not answered.
        """
        async with self._client() as client:
            (alone,) = await self._answered(client, [_prompt(LONG_CHARS, seed=seed)], num_tokens=ALONE_TOKENS)
        prompts = render_prompts(num_prompts=NUM_STREAMS, num_chars=SHORT_CHARS, seed=seed)
        async with self._client() as client:
            streams = await self._answered(client, prompts, num_tokens=STREAM_TOKENS)
        if alone.tpot_s is None or alone.ttft_s is None:
            raise EngineDown(f"{self.url} does not count its tokens, or wrote a single one")
        elapsed_s = max(each.ended_s for each in streams) - min(each.scheduled_s for each in streams)
        return Figures(
            alone_tokens_per_s=1 / alone.tpot_s,
            streams_tokens_per_s=sum(each.num_output_tokens or 0 for each in streams) / elapsed_s,
            first_token_s=alone.ttft_s,
        )

    async def greedy_answers(self) -> tuple[str, ...]:
        """One after the other, so that no batch rounds otherwise.

        Raises:
            EngineDown: it did not answer.
        """
        return tuple([await asyncio.to_thread(self._greedy_answer, prompt) for prompt in GREEDY_PROMPTS])

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[ChatClient]:
        alarms = Alarms(asyncio.get_running_loop())
        client = ChatClient(
            self.url, alarms=alarms, max_connections=NUM_STREAMS, timeout_s=TIMEOUT_S, api_key=self.api_key
        )
        try:
            yield client
        finally:
            await client.close()
            alarms.close()

    async def _answered(
        self, client: ChatClient, prompts: tuple[str, ...] | list[str], *, num_tokens: int
    ) -> list[Timeline]:
        """All at once; how each went."""
        timelines: list[Timeline] = []
        ended = asyncio.Event()

        def on_end(timeline: Timeline) -> None:
            timelines.append(timeline)
            if len(timelines) == len(prompts):
                ended.set()

        for prompt in prompts:
            body = self._body(prompt, num_tokens) | {
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            client.send(
                client.request(orjson.dumps(body)),
                scheduled_s=time.monotonic(),
                is_streaming=True,
                on_end=on_end,
            )
        await ended.wait()
        for timeline in timelines:
            if timeline.error is not None:
                raise EngineDown(f"{self.url}: {timeline.error}")
        return timelines

    def _body(self, prompt: str, num_tokens: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": num_tokens,
            "temperature": 0,
            **self.extra,
        }

    def _greedy_answer(self, prompt: str) -> str:
        headers = {"content-type": "application/json", "connection": "close"}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key}"
        body = orjson.dumps(self._body(prompt, GREEDY_TOKENS))
        request = urllib.request.Request(f"{self.url}{CHAT_PATH}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return str(orjson.loads(response.read())["choices"][0]["message"]["content"])
        except (urllib.error.URLError, OSError, KeyError, IndexError, orjson.JSONDecodeError) as error:
            raise EngineDown(f"{self.url} gave no answer ({error!r})") from None


def _prompt(num_chars: int, *, seed: int) -> str:
    return render_prompts(num_prompts=1, num_chars=num_chars, seed=seed)[0]
