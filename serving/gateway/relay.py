"""One stream on its way to the client: events are sent as they come, the first commits the answer, tokens are timed."""

from __future__ import annotations

from collections.abc import Callable

from serving.gateway.account import AttemptEntry
from serving.gateway.answer_headers import Header
from serving.gateway.exchange import Exchange
from serving.gateway.protocols.base import AnswerReader
from serving.upstream.response import UpstreamResponse


class Relay:
    """Passes the events of one stream on to the client, and times its tokens."""

    def __init__(
        self,
        entry: AttemptEntry,
        exchange: Exchange,
        headers: list[Header],
        clock: Callable[[], float],
        observe_gap: Callable[[float], None],
    ) -> None:
        self._entry = entry
        self._exchange = exchange
        self._headers = headers
        self._clock = clock
        self._observe_gap = observe_gap
        self._last_token = 0.0
        self._num_tokens = 0

    async def pass_on(self, events: bytes) -> None:
        """Send events, if there are any; the first commit the answer."""
        if not events:
            return
        if not self._entry.is_committed:
            await self._commit()
        await self._exchange.send(events)
        if self._entry.reader.num_tokens > self._num_tokens:
            self._note_tokens(self._entry.reader.num_tokens)

    async def pass_all(self, response: UpstreamResponse, reader: AnswerReader) -> None:
        """Pass on what comes, until the answer is complete or the upstream has closed."""
        async for chunk in response.chunks():
            await self.pass_on(reader.feed(chunk))
            if reader.is_complete:  # the client has waited long enough, whenever the upstream closes
                return

    async def end(self, tail: bytes) -> None:
        """Send the last bytes."""
        if not self._entry.is_committed:
            await self._commit()
        await self._exchange.send(tail, is_last=True)

    async def _commit(self) -> None:
        self._entry.is_committed = True
        await self._exchange.start(200, self._headers)

    def _note_tokens(self, num_tokens: int) -> None:
        now = self._clock()
        if self._entry.first_token is None:
            self._entry.first_token = self._last_token = now
            self._num_tokens += 1
        for _ in range(num_tokens - self._num_tokens):  # between those that came together is none
            self._observe_gap(now - self._last_token)
            self._last_token = now
        self._num_tokens = num_tokens
