"""Servers that run already: a hosted API, an Ollama, a vLLM somewhere. Their URLs are the replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import aiohttp
from pydantic import Field, field_validator

from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch, SettingsNode
from serving.engines.llamacpp_dialect import unsupported_parameters
from serving.engines.llamacpp_tools import ToolSupport, probe_tools

PROBE_TIMEOUT_S: Final = 5.0
ASSUMED_CONTEXT_TOKENS: Final = 131_072
"""Too large a guess lets the server refuse what is too long; too small a one would refuse what it could answer."""


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
    context_tokens: int | None = Field(None, gt=0)
    """Prompt and answer of one request; what the server says where absent, and 131,072 where it says nothing."""
    num_slots: int = Field(64, gt=0)
    """Requests at once to each server."""
    modalities: frozenset[str] = frozenset({"text"})
    tools: bool = True
    structured_output: bool = True
    logprobs: bool = True
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
        """What the operator declared, and what the server's list of models adds to it.

        A llama.cpp server is known by that list: what it drops, and how its tool calls are forced, is as for our own.

        Raises:
            EngineError: the server refuses the API key; or no model was named, and it does not list exactly one.
        """
        settings = self._settings
        listed = await self._models(session, endpoint)
        name = settings.model or _only_name(listed, endpoint.url)
        entry = next((model for model in listed or () if model.get("id") == name), {})
        endpoints = {"embeddings"} if settings.embeddings else {"chat", "completions"}
        if settings.responses == "native" and not settings.embeddings:
            endpoints.add("responses")
        declared = EngineCapabilities(
            model_id=name,
            context_tokens=settings.context_tokens or _context_tokens(entry) or ASSUMED_CONTEXT_TOKENS,
            num_slots=settings.num_slots,
            endpoints=frozenset(endpoints),
            modalities=settings.modalities,
            tools=settings.tools,
            structured_output=settings.structured_output,
            logprobs=settings.logprobs,
            unsupported_parameters=settings.unsupported_parameters,
        )
        if entry.get("owned_by") != "llamacpp" or settings.embeddings:
            return declared
        return await _as_llamacpp(declared, session, endpoint)

    async def _models(
        self, session: aiohttp.ClientSession, endpoint: Endpoint
    ) -> list[dict[str, Any]] | None:
        """The entries of `/v1/models`; None where there is no such list."""
        try:
            async with self._get(session, endpoint) as response:
                if response.status == 401:
                    raise EngineError(f"{endpoint.url} refuses the API key: {self._key_remedy()}")
                response.raise_for_status()
                return [dict(model) for model in (await response.json(content_type=None))["data"]]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
            return None

    def _key_remedy(self) -> str:
        if self._settings.api_key_env is None:
            return "name the variable that holds one with `engine.api_key_env`"
        return f"correct ${self._settings.api_key_env}"

    def _get(
        self, session: aiohttp.ClientSession, endpoint: Endpoint
    ) -> aiohttp.client._RequestContextManager:
        headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        return session.get(f"{endpoint.url}/v1/models", headers=headers, timeout=timeout)


def _only_name(listed: list[dict[str, Any]] | None, url: str) -> str:
    if listed is None:
        raise EngineError(f"{url} does not list its models: name one with `engine.model`")
    names = [str(model.get("id")) for model in listed]
    if len(names) != 1:
        has = f"has the models {', '.join(names)}" if names else "has no model"
        raise EngineError(f"{url} {has}: name one with `engine.model`")
    return names[0]


def _context_tokens(entry: Mapping[str, Any]) -> int | None:
    """As vLLM, OpenRouter and llama.cpp say it."""
    meta = entry.get("meta")
    found = (
        entry.get("max_model_len"),
        entry.get("context_length"),
        meta.get("n_ctx") if isinstance(meta, dict) else None,
    )
    return next((value for value in found if isinstance(value, int) and value > 0), None)


async def _as_llamacpp(
    declared: EngineCapabilities, session: aiohttp.ClientSession, endpoint: Endpoint
) -> EngineCapabilities:
    try:
        tools = await probe_tools(session, endpoint)
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError):
        tools = ToolSupport(are_rendered=declared.tools, forced_call_prefix=None)
    known = unsupported_parameters(takes_effort=True, forces_calls=tools.forced_call_prefix is not None)
    return replace(
        declared,
        tools=declared.tools and tools.are_rendered,
        unsupported_parameters=declared.unsupported_parameters | known,
        counts_one_choice=True,
        forced_call_prefix=tools.forced_call_prefix,
        keeps_connections=False,
    )
