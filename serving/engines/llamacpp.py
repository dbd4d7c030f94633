"""llama.cpp: the engine inside, through `xllamacpp` in a child process, or a `llama-server` binary where one is named.

What the engine drops or gets wrong stands in `llamacpp_dialect`; how a required tool call is made to begin at once in
`llamacpp_tools`; what proposes tokens in `llamacpp_draft`; how threads, slots and context are chosen in
`llamacpp_plan`.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any, Final, Literal, Self

import aiohttp
from pydantic import Field, field_validator, model_validator

from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch, SettingsNode
from serving.engines.llamacpp_compute import ComputeSettings, binary_arguments, embedded_arguments
from serving.engines.llamacpp_dialect import NATIVE_ENDPOINTS, unsupported_parameters
from serving.engines.llamacpp_draft import (
    DraftSettings,
    ModelDraft,
    binary_draft_arguments,
    check_draft,
    embedded_draft_arguments,
)
from serving.engines.llamacpp_plan import Plan, Wishes, make_plan, read_shape, with_draft
from serving.engines.llamacpp_tools import probe_tools
from serving.engines.machine import Machine, this_machine

PROBE_TIMEOUT_S: Final = 10.0
LOOPBACK: Final = "127.0.0.1"
EMBEDDED_KEY: Final = "TIERWISE_ENGINE_KEY"
"""Where the child finds its API key."""
BINARY_KEY: Final = "LLAMA_API_KEY"
"""Where llama-server finds it."""
PASSIVE_WAIT: Final = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait for one another sleep instead of spinning. ggml's threads meet some hundred times a token; where
more threads are runnable than cores, spinning ones keep the core from the one that all wait for: with two engines busy
on two cores that was 1 token/s against 30."""


class SamplingSettings(SettingsNode):
    """How tokens are drawn where a request does not say."""

    temperature: float = Field(0.8, ge=0)
    top_p: float = Field(0.95, gt=0, le=1)
    top_k: int = Field(40, ge=0)
    """0 is off: then `top_p` sorts the whole vocabulary for every token, which costs a third of the speed. OpenAI's API
    has no such member, but a request may bring it."""
    min_p: float = Field(0.0, ge=0, lt=1)
    """0 is off."""


class LlamaCppSettings(SettingsNode):
    """A tier that this gateway runs itself. What is left out is chosen for the machine: see `llamacpp_plan`."""

    type: Literal["llamacpp"] = "llamacpp"
    threads: int | None = Field(None, gt=0)
    """Of computation; every core of the process where absent, or one for a lone stream of a small model."""
    threads_alone: int | None = Field(None, gt=0)
    """Of a lone stream: `threads` where absent, or as said there."""
    slots: int | None = Field(None, gt=0, le=256)
    """Requests at once, each with a context of its own; as many as memory holds, at most 8, where absent."""
    context_tokens: int | None = Field(None, ge=256)
    """Prompt and answer of one request together; the model's own, at most 8,192, where absent."""
    prompt_cache_mib: int | None = Field(None, ge=0)
    """Memory for prompts of earlier turns; an eighth of the tier's share where absent, 0 switches it off."""
    sampling: SamplingSettings = SamplingSettings()
    compute: ComputeSettings = ComputeSettings()
    draft: DraftSettings | None = None
    """What proposes tokens for the model to verify; none where absent."""
    quantization: Literal["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"] = "Q8_0"
    """Of a policy that the registry holds as a difference to its base, when it is made whole. A GGUF is what it is."""
    embeddings: bool = False
    """The model embeds, and does nothing else."""
    pooling: Literal["mean", "cls", "last"] | None = None
    """How the vectors of an input's tokens become one; as the model says where absent."""
    chat_template: Path | None = None
    """A Jinja file to use instead of the template in the model."""
    ready_timeout_s: float = Field(300.0, gt=0)
    """How long loading the model may take."""
    binary: Path | None = None
    """A `llama-server` to run instead of the embedded llama.cpp, for example one built for a GPU."""
    binary_args: tuple[str, ...] = ()
    """Further arguments for it, after ours; llama-server heeds the last."""

    @field_validator("binary", "chat_template")
    @classmethod
    def _expanded(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()

    @model_validator(mode="after")
    def _pooling_is_of_embeddings(self) -> Self:
        if self.pooling is not None and not self.embeddings:
            raise ValueError("`pooling` is for a tier that embeds: set `embeddings` as well")
        return self

    @model_validator(mode="after")
    def _batches_are_of_answers(self) -> Self:
        compute = self.compute
        if self.embeddings and (compute.batch_tokens is not None or compute.ubatch_tokens is not None):
            raise ValueError(
                "a tier that embeds takes each input in one batch: leave `compute.*batch_tokens` out"
            )
        return self

    @model_validator(mode="after")
    def _drafts_are_of_answers(self) -> Self:
        if self.embeddings and self.draft is not None:
            raise ValueError("a tier that embeds writes no tokens: leave `draft` out")
        return self

    @model_validator(mode="after")
    def _arguments_have_a_binary(self) -> Self:
        if self.binary_args and self.binary is None:
            raise ValueError("`binary_args` are for a llama-server: name it with `binary`")
        return self


class LlamaCppEngine:
    """Implements `Engine` for `LlamaCppSettings`.

    Args:
        settings: the tier's.
        num_sharing: engines on this machine that share its memory, this one included.
        machine: what they share. Taken once, so that an engine that is started again gets what it had.
        draft_model: the file of `settings.draft`, where that is a model (`bringup.draft_model` finds it).
    """

    def __init__(
        self,
        settings: LlamaCppSettings,
        *,
        num_sharing: int = 1,
        machine: Machine | None = None,
        draft_model: Path | None = None,
    ) -> None:
        assert isinstance(settings.draft, ModelDraft) is (draft_model is not None)
        self._settings = settings
        self._draft_model = draft_model
        self._num_sharing = num_sharing
        self._machine = machine or this_machine()

    def plan(self, model: Path) -> Plan:
        """Threads, slots and context for this model, with reasons.

        Raises:
            EngineError: there is no such model, or it does not fit.
        """
        settings = self._settings
        wishes = Wishes(
            threads=settings.threads,
            threads_alone=settings.threads_alone,
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            prompt_cache_mib=settings.prompt_cache_mib,
        )
        shape = read_shape(model, bytes_per_element=settings.compute.kv_bytes_per_element)
        if self._draft_model is not None:
            shape = with_draft(shape, read_shape(self._draft_model))
        return make_plan(wishes, shape, self._machine, num_sharing=self._num_sharing)

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch:
        """The child process for `tier`.

        Raises:
            EngineError: no model, or one that cannot be read or does not fit; a binary or template that is not there;
                a draft of another vocabulary, or a head of another model.
        """
        if model is None:
            raise EngineError(f"tier {tier} has no model: name one with `tiers.{tier}.model`")
        settings = self._settings
        for path, name in ((settings.binary, "binary"), (settings.chat_template, "chat_template")):
            if path is not None and not path.is_file():
                raise EngineError(f"there is no file {path}: correct `tiers.{tier}.engine.{name}`")
        if settings.binary is not None and not os.access(settings.binary, os.X_OK):
            raise EngineError(f"{settings.binary} is not executable: chmod +x it, or name a llama-server")
        if self._draft_model is not None:
            check_draft(model, self._draft_model)
        plan = self.plan(model)
        make_argv = embedded_argv if settings.binary is None else binary_argv
        key = secrets.token_urlsafe(24)
        return Launch(
            argv=make_argv(settings, plan, model=model, draft_model=self._draft_model, port=port),
            env={EMBEDDED_KEY if settings.binary is None else BINARY_KEY: key, **PASSIVE_WAIT},
            url=f"http://{LOOPBACK}:{port}",
            api_key=key,
            ready_timeout_s=settings.ready_timeout_s,
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """None that run already."""
        return ()

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        """Whether the model is loaded."""
        try:
            async with session.get(
                f"{endpoint.url}/health", timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            ) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        """What the server says of itself, and how its template treats tools.

        Raises:
            EngineError: it gave no usable answer.
        """
        try:
            models = await self._get(session, endpoint, "/v1/models")
            props = await self._get(session, endpoint, "/props")
            shared: dict[str, Any] = {
                "model_id": str(models["data"][0]["id"]),
                "context_tokens": int(props["default_generation_settings"]["n_ctx"]),
                "num_slots": int(props["total_slots"]),
                "keeps_connections": False,
            }
            if self._settings.embeddings:
                await _check_embedding(session, endpoint)
                return EngineCapabilities(
                    **shared,
                    endpoints=frozenset({"embeddings"}),
                    tools=False,
                    structured_output=False,
                    logprobs=False,
                )
            tools = await probe_tools(session, endpoint)
        except (aiohttp.ClientError, TimeoutError, KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineError(
                f"the engine at {endpoint.url} did not say what it offers ({error!r}): is it llama-server?"
            ) from None
        return EngineCapabilities(
            **shared,
            endpoints=NATIVE_ENDPOINTS,
            modalities=frozenset(
                {"text"} | ({"image"} if props.get("modalities", {}).get("vision") else set())
            ),
            tools=tools.are_rendered,
            logprobs=self._settings.draft is None,
            forced_call_prefix=tools.forced_call_prefix,
            unsupported_parameters=unsupported_parameters(
                takes_effort=bool(props.get("chat_template_caps", {}).get("supports_reasoning_effort")),
                forces_calls=tools.forced_call_prefix is not None,
            ),
            counts_one_choice=True,
        )

    async def _get(self, session: aiohttp.ClientSession, endpoint: Endpoint, path: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {endpoint.api_key}"}
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        async with session.get(f"{endpoint.url}{path}", headers=headers, timeout=timeout) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer


async def _check_embedding(session: aiohttp.ClientSession, endpoint: Endpoint) -> None:
    """Embed one word, since a model that says nothing of pooling starts and then refuses every request."""
    async with session.post(
        f"{endpoint.url}/v1/embeddings",
        json={"input": "hi"},
        headers={"authorization": f"Bearer {endpoint.api_key}"},
        timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S),
    ) as response:
        answer = await response.json()
        if "pooling" in str(answer.get("error", "")).lower():
            raise EngineError(
                "the model does not say how it pools: set `engine.pooling`, or take one that embeds"
            )
        response.raise_for_status()


def embedded_argv(
    settings: LlamaCppSettings, plan: Plan, *, model: Path, draft_model: Path | None, port: int
) -> tuple[str, ...]:
    """The command line of `llamacpp_server`. `-P`: what lies in the working directory is not imported."""
    sampling = settings.sampling
    argv = [sys.executable, "-P", "-m", "serving.engines.llamacpp_server"]
    argv += ["--model", str(model.absolute()), "--alias", model.stem, "--port", str(port)]
    argv += ["--threads", str(plan.threads), "--threads-alone", str(plan.threads_alone)]
    argv += ["--slots", str(plan.slots)]
    argv += ["--context-tokens", str(plan.context_tokens)]
    argv += ["--prompt-cache-mib", str(plan.prompt_cache_bytes >> 20)]
    argv += ["--temperature", str(sampling.temperature), "--top-p", str(sampling.top_p)]
    argv += ["--top-k", str(sampling.top_k), "--min-p", str(sampling.min_p)]
    if settings.chat_template is not None:
        argv += ["--chat-template", str(settings.chat_template)]
    if settings.embeddings:
        argv.append("--embeddings")
    if settings.pooling is not None:
        argv += ["--pooling", settings.pooling]
    argv += embedded_draft_arguments(settings.draft, draft_model)
    return (*argv, *embedded_arguments(settings.compute))


def binary_argv(
    settings: LlamaCppSettings, plan: Plan, *, model: Path, draft_model: Path | None, port: int
) -> tuple[str, ...]:
    """The same for `llama-server`: tools/server/README.md of llama.cpp lists its flags."""
    assert settings.binary is not None
    sampling = settings.sampling
    alias = model.stem.replace(",", "_")  # a comma would begin a second one
    argv = [str(settings.binary), "--model", str(model.absolute()), "--alias", alias]
    argv += ["--host", LOOPBACK, "--port", str(port), "--jinja", "--metrics", "--no-webui", "--fit", "off"]
    argv += ["--threads", str(plan.threads_alone), "--threads-batch", str(plan.threads)]
    argv += ["--parallel", str(plan.slots), "--kv-unified"]
    argv += [
        "--ctx-size",
        str(plan.slots * plan.context_tokens),
        "--kv-unified-per-slot",
        str(plan.context_tokens),
    ]
    argv += ["--cache-ram", str(plan.prompt_cache_bytes >> 20)]
    argv += ["--temp", str(sampling.temperature), "--top-p", str(sampling.top_p)]
    argv += ["--top-k", str(sampling.top_k), "--min-p", str(sampling.min_p)]
    if settings.chat_template is not None:
        argv += ["--chat-template-file", str(settings.chat_template)]
    if settings.embeddings:  # an input is embedded in one batch
        argv += [
            "--embeddings",
            "--batch-size",
            str(plan.context_tokens),
            "--ubatch-size",
            str(plan.context_tokens),
        ]
    if settings.pooling is not None:
        argv += ["--pooling", settings.pooling]
    argv += binary_draft_arguments(settings.draft, draft_model, plan)
    return (*argv, *binary_arguments(settings.compute), *settings.binary_args)
