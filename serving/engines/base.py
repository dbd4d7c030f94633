"""What an engine is: a server process that speaks the OpenAI API, and how it is launched and probed.

An engine's settings node (`EngineSettings`, discriminated by `type`) and its `Engine` stand in one module each:
`llamacpp`, `external`. `supervisor` runs whatever `Engine.launch` describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp
from pydantic import BaseModel, ConfigDict


class SettingsNode(BaseModel):
    """Base of every node of the settings tree: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineError(Exception):
    """An engine could not be described, started or probed; the message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A child process to run: what `supervisor` needs to start an engine and to know it is up."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to a minimal environment (PATH, HOME, locale); the caller's own environment is not inherited."""
    url: str
    """Where it will listen, without a trailing slash or `/v1`."""
    api_key: str | None = None
    """A key drawn for this one process, so that nobody else on the machine can use the engine."""
    ready_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCapabilities:
    """What a running engine offers, as probed or as configured."""

    model_id: str
    """The name under which the engine serves the model: what must stand in a request's `model`."""
    context_tokens: int
    num_slots: int
    """Requests that it works on at once."""
    endpoints: frozenset[str]
    """Native ones, of `chat`, `completions`, `responses`, `embeddings`."""
    modalities: frozenset[str] = frozenset({"text"})
    tools: bool = True
    structured_output: bool = True
    logprobs: bool = True
    unsupported_parameters: frozenset[str] = frozenset()
    """Request members that the engine would drop without a word; the gateway refuses them instead."""
    counts_one_choice: bool = False
    """Its usage of a whole answer with `n` > 1 counts one choice only; that of a stream counts them all."""
    forced_call_prefix: str | None = None
    """Where a required tool call needs help to begin at once: the text that begins every call, to be put at the end of
    the conversation as an assistant message (`llamacpp_tools.force_call` does). None where no help is needed."""
    keeps_connections: bool = True
    """Whether a connection may carry a second request. False: open one for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A replica as the upstream pool sees it."""

    url: str
    api_key: str | None = None
    keeps_connections: bool = True
    """As `EngineCapabilities.keeps_connections`."""


class Engine(Protocol):
    """One tier's engine."""

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch | None:
        """The process to start for `tier` on a loopback port; None where the servers run already.

        Raises:
            EngineError: the settings cannot work on this machine (missing binary, missing model file).
        """
        ...

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Replicas that run already; empty for an engine that `launch` starts."""
        ...

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        """Whether the server answers and has loaded its model. Never raises for a server that is down."""
        ...

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        """What the server offers.

        Raises:
            EngineError: the server gave no usable answer.
        """
        ...
