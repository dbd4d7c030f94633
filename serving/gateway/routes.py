"""The gateway's URLs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from serving.gateway.errors import ApiError
from serving.gateway.exchange import Exchange, Receive, Scope, Send
from serving.gateway.fleet import Fleet
from serving.gateway.protocols.base import ProtocolAdapter
from serving.gateway.protocols.chat import ChatAdapter
from serving.gateway.protocols.completions import CompletionsAdapter
from serving.gateway.protocols.embeddings import EmbeddingsAdapter
from serving.gateway.protocols.responses import ResponsesAdapter
from serving.gateway.service import Service
from serving.settings import Settings
from serving.telemetry.metrics import CONTENT_TYPE, Metrics

ADAPTERS: dict[str, type[ProtocolAdapter]] = {
    "/v1/chat/completions": ChatAdapter,
    "/v1/completions": CompletionsAdapter,
    "/v1/embeddings": EmbeddingsAdapter,
    "/v1/responses": ResponsesAdapter,
}


class ProtocolEndpoint:
    """The ASGI application of one protocol."""

    def __init__(self, service: Service, adapter: ProtocolAdapter) -> None:
        self._service = service
        self._adapter = adapter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._service.handle(self._adapter, Exchange(scope, receive, send))


def protocol_routes(service: Service) -> list[Route]:
    """One route a protocol: plain ASGI, so that no framework stands between a token and its client."""
    return [
        Route(path, ProtocolEndpoint(service, adapter()), methods=["POST"])
        for path, adapter in ADAPTERS.items()
    ]


def add_operations(
    app: FastAPI,
    *,
    settings: Settings,
    fleet: Fleet,
    metrics: Metrics,
    started_at: int,
    is_draining: Callable[[], bool],
    authenticate: Callable[[Request], object],
) -> None:
    """Add the routes that are not answered by a tier: models, health, metrics.

    Args:
        started_at: Unix time, told as each model's `created`.
        is_draining: whether the process is about to stop, so that no new traffic should come.
        authenticate: raises `ApiError` for a request without a valid key.
    """

    @app.get("/v1/models")
    async def models(request: Request) -> JSONResponse:
        authenticate(request)
        data = [_model(name, started_at) for name in model_names(settings, fleet)]
        return JSONResponse({"object": "list", "data": data})

    @app.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> JSONResponse:
        authenticate(request)
        if name not in model_names(settings, fleet):
            raise ApiError(
                404, f"The model {name[:80]!r} does not exist here.", param="model", code="model_not_found"
            )
        return JSONResponse(_model(name, started_at))

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        is_ready = fleet.has_started and fleet.is_available and not is_draining()
        tiers = {tier.name: "ready" if tier.is_available() else "down" for tier in fleet}
        status = "draining" if is_draining() else "ready" if is_ready else "not ready"
        return JSONResponse({"status": status, "tiers": tiers}, status_code=200 if is_ready else 503)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)


def add_error_handlers(app: FastAPI) -> None:
    """Every error in OpenAI's shape, those of unknown URLs included."""

    async def api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body, error.status, headers, "application/json")

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}. The API lies under /v1."
        return await api_error(request, ApiError(error.status_code, message, code="unknown_url"))

    handlers: Iterable[tuple[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]] = (
        (ApiError, api_error),
        (HTTPException, http_error),
    )
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)


def model_names(settings: Settings, fleet: Fleet) -> list[str]:
    """What `model` may say: `auto`, the arms, the tiers, and the engines' own ids."""
    names = ["auto", *(arm.name for arm in settings.resolved_arms), *settings.tiers, *fleet.model_ids]
    return list(dict.fromkeys(names))


def _model(name: str, created: int) -> dict[str, object]:
    return {"id": name, "object": "model", "created": created, "owned_by": "tierwise"}
