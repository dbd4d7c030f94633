"""Servers that run already: a hosted API, an Ollama, a vLLM somewhere. Their URLs are the replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import aiohttp
from pydantic import Field, field_validator

from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch, SettingsNode

PROBE_TIMEOUT_S: Final = 5.0


class ExternalSettings(SettingsNode):
    """A tier whose servers are somebody else's to run. What they offer is declared, since no API tells it."""

    type: Literal["external"] = "external"
    urls: tuple[str, ...] = Field(min_length=1)
    """Of the servers, with or without `/v1` at the end; each is a replica."""
    model: str | None = None
    """The model's name there; the only one of `/v1/models` where absent."""
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the servers' API key."""
    responses: Literal["native", "translate"] = "translate"
    """Whether they have a Responses API, or get chat completions in its place."""
    embeddings: bool = False
    """Whether the model embeds. One that does is taken to do nothing else."""
    context_tokens: int = Field(131_072, gt=0)
    num_slots: int = Field(64, gt=0)
    """Requests at once to each server."""
    modalities: frozenset[str] = frozenset({"text"})
    tools: bool = True
    structured_output: bool = True
    logprobs: bool = True
    counts_one_choice: bool = False
    """Whether their usage covers only one of several choices, as llama.cpp's does."""
    unsupported_parameters: frozenset[str] = frozenset()
    """Request members that the servers would drop without a word; such requests are refused instead."""

    @field_validator("urls")
    @classmethod
    def _normalised(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        normalised = tuple(url.rstrip("/").removesuffix("/v1").rstrip("/") for url in urls)
        for url in normalised:
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError(f"{url!r} is not a URL; write it like http://127.0.0.1:11434")
            if parts.username or parts.password:
                raise ValueError("a URL must hold no password; name a variable with `api_key_env`")
        if len(set(normalised)) < len(normalised):
            raise ValueError("a URL stands there twice")
        return normalised


class ExternalEngine:
    """Implements `Engine` for `ExternalSettings`; `api_key` is what the variable `api_key_env` holds."""

    def __init__(self, settings: ExternalSettings, api_key: str | None = None) -> None:
        self._settings = settings
        self._api_key = api_key

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch | None:
        """None: there is nothing to start."""
        return None

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The configured servers."""
        return tuple(Endpoint(url=url, api_key=self._api_key) for url in self._settings.urls)

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        """Whether the server answers at all: hosted APIs have no health page, and some no list of models."""
        try:
            async with self._get(session, endpoint) as response:
                return response.status < 500
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        """What the operator declared, and the model's name from the server where that was left to it.

        Raises:
            EngineError: no model was named, and the server does not list exactly one.
        """
        settings = self._settings
        endpoints = {"embeddings"} if settings.embeddings else {"chat", "completions"}
        if settings.responses == "native" and not settings.embeddings:
            endpoints.add("responses")
        return EngineCapabilities(
            model_id=settings.model or await self._only_model(session, endpoint),
            context_tokens=settings.context_tokens,
            num_slots=settings.num_slots,
            endpoints=frozenset(endpoints),
            modalities=settings.modalities,
            tools=settings.tools,
            structured_output=settings.structured_output,
            logprobs=settings.logprobs,
            unsupported_parameters=settings.unsupported_parameters,
            counts_one_choice=settings.counts_one_choice,
        )

    async def _only_model(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> str:
        try:
            async with self._get(session, endpoint) as response:
                response.raise_for_status()
                names = [str(model["id"]) for model in (await response.json(content_type=None))["data"]]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise EngineError(
                f"{endpoint.url} does not list its models ({error}): name one with `engine.model`"
            ) from None
        if len(names) != 1:
            raise EngineError(f"{endpoint.url} has the models {', '.join(names)}: name one with `engine.model`")
        return names[0]

    def _get(
        self, session: aiohttp.ClientSession, endpoint: Endpoint
    ) -> aiohttp.client._RequestContextManager:
        headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        return session.get(f"{endpoint.url}/v1/models", headers=headers, timeout=timeout)
