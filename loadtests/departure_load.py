"""Runs a mix of departures against a gateway: so many clients at once, each leaving when its plan says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from loadtests.alarms import Alarms
from loadtests.departures import LEFT, Departure, Phase, UsualTimes
from loadtests.http_client import Exchange
from loadtests.prompts import chat_body
from loadtests.stream_client import ChatClient, Moment, into
from loadtests.timeline import Timeline


class DepartureLoad:
    """Clients of one gateway; prompts go round in order."""

    def __init__(
        self, client: ChatClient, *, alarms: Alarms, prompts: Sequence[str], model: str, max_tokens: int
    ) -> None:
        self._client = client
        self._alarms = alarms
        self._requests = {
            is_streaming: [
                client.request(
                    chat_body(prompt, model=model, max_tokens=max_tokens, is_streaming=is_streaming)
                )
                for prompt in prompts
            ]
            for is_streaming in (False, True)
        }
        self._num_sent = 0

    async def run(
        self, departures: Iterable[Departure], *, num_clients: int, usual: UsualTimes | None
    ) -> list[Timeline]:
        """Let `num_clients` clients work through the departures; the timelines, in the order in which they ended.

        `usual` may be None where nobody leaves early.
        """
        timelines: list[Timeline] = []
        left = iter(departures)

        async def work() -> None:
            for departure in left:
                timelines.append(await self._one(departure, usual))

        async with asyncio.TaskGroup() as clients:
            for _ in range(num_clients):
                clients.create_task(work())
        return timelines

    async def _one(self, departure: Departure, usual: UsualTimes | None) -> Timeline:
        requests = self._requests[departure.is_streaming]
        request = requests[self._num_sent % len(requests)]
        self._num_sent += 1
        leaver = None if usual is None else _Leaver(departure, usual, self._alarms)
        ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
        exchange = self._client.send(
            request,
            scheduled_s=time.monotonic(),
            is_streaming=departure.is_streaming,
            on_end=into(ended),
            on_moment=leaver.on_moment if leaver else _stay,
        )
        if leaver is not None:
            leaver.watch(exchange)
        return await ended


def _stay(moment: Moment) -> None:
    pass


class _Leaver:
    """Breaks one exchange off within the phase that was planned, even where that phase turns out shorter than usual."""

    def __init__(self, departure: Departure, usual: UsualTimes, alarms: Alarms) -> None:
        self._departure = departure
        self._alarms = alarms
        self._exchange: Exchange | None = None
        self._was_sent = False
        self._num_tokens = 0
        self._leaves_at_token = 1 + int(departure.fraction * max(1, usual.num_tokens - 1))
        self._delay_s = departure.fraction * {
            Phase.BEFORE_HEADERS: usual.headers_s,
            Phase.BEFORE_FIRST_TOKEN: usual.first_token_s,
            Phase.WHOLE: usual.whole_s,
        }.get(departure.phase, 0.0)

    def watch(self, exchange: Exchange) -> None:
        """Name the exchange, which may have been sent already while it was made."""
        self._exchange = exchange
        if self._was_sent:
            self._on_sent()

    def on_moment(self, moment: Moment) -> None:
        """Hear how far the exchange is."""
        if moment is Moment.SENT:
            self._was_sent = True
            if self._exchange is not None:
                self._on_sent()
        elif moment is Moment.HEADERS:
            self._on_headers()
        else:
            self._on_token()

    def _on_sent(self) -> None:
        if self._departure.phase in {Phase.BEFORE_HEADERS, Phase.WHOLE}:
            self._leave_after(self._delay_s)

    def _on_headers(self) -> None:
        if self._departure.phase is Phase.BEFORE_HEADERS:
            self._leave()
        elif self._departure.phase is Phase.BEFORE_FIRST_TOKEN:
            self._leave_after(self._delay_s)

    def _on_token(self) -> None:
        self._num_tokens += 1
        is_time = self._departure.phase is Phase.MID_STREAM and self._num_tokens >= self._leaves_at_token
        if is_time or self._departure.phase is Phase.BEFORE_FIRST_TOKEN:
            self._leave()

    def _leave_after(self, delay_s: float) -> None:
        self._alarms.call_at(time.monotonic() + delay_s, self._leave)

    def _leave(self) -> None:
        if self._exchange is not None:
            self._exchange.abort(LEFT, resets=self._departure.resets)
