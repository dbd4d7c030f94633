"""The URLs that no tier answers: models, health, metrics; and the shape of their errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from serving.gateway.errors import ApiError, internal
from serving.gateway.fleet import Fleet
from serving.settings import Settings
from serving.telemetry.metrics import CONTENT_TYPE, Metrics

MAX_PATH_CHARS: Final = 200
PROBED: Final = ["GET", "HEAD"]
"""Load balancers ask either way."""


def operations(
    *,
    settings: Settings,
    fleet: Fleet,
    metrics: Metrics,
    started_at: int,
    is_draining: Callable[[], bool],
    authenticate: Callable[[Request], object],
) -> FastAPI:
    """The application that answers them.

    Args:
        started_at: Unix time, told as each model's `created`.
        is_draining: whether the process is about to stop, so that no new traffic should come.
        authenticate: raises `ApiError` for a request without a valid key.
    """
    app = FastAPI(
        title="tierwise",
        version=version("tierwise"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirected POST is a second one
    )

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

    @app.api_route("/healthz", methods=PROBED)
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.api_route("/readyz", methods=PROBED)
    async def readyz() -> JSONResponse:
        is_ready = fleet.has_started and fleet.is_available and not is_draining()
        tiers = {tier.name: "ready" if tier.is_available() else "down" for tier in fleet}
        status = "draining" if is_draining() else "ready" if is_ready else "not ready"
        return JSONResponse({"status": status, "tiers": tiers}, status_code=200 if is_ready else 503)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    _add_error_handlers(app)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Every error in OpenAI's shape, those of unknown URLs included."""

    async def api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body, error.status, headers, "application/json")

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path[:MAX_PATH_CHARS]
        message = f"{request.method} {path}: {error.detail}. The API lies under /v1."
        code = "method_not_allowed" if error.status_code == 405 else "unknown_url"
        response = await api_error(request, ApiError(error.status_code, message, code=code))
        response.headers.update(error.headers or {})
        return response

    async def our_error(request: Request, error: Exception) -> Response:
        return await api_error(request, internal())  # and Starlette raises it again, for the log

    handlers: Iterable[tuple[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]] = (
        (ApiError, api_error),
        (HTTPException, http_error),
        (Exception, our_error),
    )
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)


def model_names(settings: Settings, fleet: Fleet) -> list[str]:
    """What `model` may say: `auto`, the arms, the tiers, and the engines' own ids."""
    names = ["auto", *(arm.name for arm in settings.resolved_arms), *settings.tiers, *fleet.model_ids]
    return list(dict.fromkeys(names))


def _model(name: str, created: int) -> dict[str, object]:
    return {"id": name, "object": "model", "created": created, "owned_by": "tierwise"}
