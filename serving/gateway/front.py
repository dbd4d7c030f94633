"""The ASGI application: the protocols directly, everything else by FastAPI, and a request id on every answer.

A framework's routing and middleware would be the dearest part of a request's way through the gateway, and of all that
they offer a relayed answer needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from serving.gateway.answer_headers import answer_headers
from serving.gateway.errors import ApiError
from serving.gateway.exchange import App, Exchange, Message, Receive, Scope, Send
from serving.gateway.levers import request_id_of
from serving.gateway.protocols.base import ProtocolAdapter
from serving.gateway.protocols.chat import ChatAdapter
from serving.gateway.protocols.completions import CompletionsAdapter
from serving.gateway.protocols.embeddings import EmbeddingsAdapter
from serving.gateway.protocols.responses import ResponsesAdapter
from serving.gateway.service import Service

ADAPTERS: Final[Mapping[str, type[ProtocolAdapter]]] = {
    "/v1/chat/completions": ChatAdapter,
    "/v1/completions": CompletionsAdapter,
    "/v1/embeddings": EmbeddingsAdapter,
    "/v1/responses": ResponsesAdapter,
}


class Front:
    """Takes every request.

    Args:
        service: answers those of the protocols.
        operations: answers all others.
        new_id: a fresh request id.
    """

    def __init__(self, service: Service, operations: App, new_id: Callable[[], str]) -> None:
        self._service = service
        self._operations = operations
        self._new_id = new_id
        self._adapters = {path: adapter() for path, adapter in ADAPTERS.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        exchange = Exchange(scope, receive, send)
        adapter = self._adapters.get(scope["path"])
        if adapter is not None and scope["method"] == "POST":
            return await self._service.handle(adapter, exchange)
        request_id = request_id_of(exchange.headers, self._new_id())
        if adapter is not None:
            error = ApiError(405, f"{scope['path']} is asked by POST.", code="method_not_allowed")
            headers = [*answer_headers(request_id, None, None), (b"allow", b"POST")]
            return await exchange.respond(error.status, error.body, headers)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *answer_headers(request_id, None, None)]
            await send(message)

        return await self._operations(scope, receive, send_with_id)
