"""Samples from a vLLM server that the policy is pushed to, as a LoRA adapter, while the server runs.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True python -m vllm.entrypoints.openai.api_server --enable-lora --model BASE …

Every push is an adapter of a name and a directory of its own: vLLM finds cached prefixes by these two, whatever the
weights behind them, so a name that is used again would mix policies. The adapter before is given up once the next is
loaded. The server is told a path, and has to see it: it runs on this machine, or shares its file system.

Sampling itself is `rollouts.engine`; how old a rollout may be is `train.staleness`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from serving.engines.base import Endpoint, EngineError
from train.model.llama import Llama
from train.model.lora import adapters, save_adapter
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason

_WEIGHTS: Final = "adapter_model.safetensors"

_log = logging.getLogger(__name__)


class VllmSampler:
    """A `parts.UpdatedSampler` over one server. It pushes at each `update`, and before the first answer.

    Args:
        model: with adapters (`lora.add_lora`); they are read at each push.
        endpoint: where the server listens.
        directory: empty, and of this sampler alone: adapters are written there and named after it.
        base: what the server serves, for whoever reads an adapter's configuration.
        policy_version: of the weights as they are now.
        max_seconds: for one answer, as `EngineSampler`.
        max_push_s: for the server to load an adapter.
    """

    def __init__(
        self,
        model: Llama,
        endpoint: Endpoint,
        directory: Path,
        *,
        base: str,
        policy_version: int = 0,
        max_seconds: float = 300.0,
        max_push_s: float = 120.0,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._directory = directory
        self._base = base
        self._policy_version = policy_version
        self._max_seconds = max_seconds
        self._max_push_s = max_push_s
        self._loaded: str | None = None

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        return self._policy_version

    @property
    def adapter(self) -> str | None:
        """The name of what the server has of this sampler; None before the first push."""
        return self._loaded

    def update(self, policy_version: int) -> None:
        """Push the adapters as they are now, under this version. Where that fails the server has those of before.

        Raises:
            EngineError: the server cannot be reached, refuses, or takes too long.
        """
        path = self._written(policy_version)
        if path.name != self._loaded:
            self._load(path)
            before, self._loaded = self._loaded, path.name
            if before is not None:
                self._give_up(before)
        self._policy_version = policy_version

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        """As `EngineSampler`: of temperatures 0 and 1 only, since vLLM's log-probabilities are those before it."""
        if self._loaded is None:
            self.update(self._policy_version)
        assert self._loaded is not None, "an update that did not raise has loaded one"
        engine = EngineSampler(
            self._endpoint,
            self._loaded,
            policy_version=self._policy_version,
            max_seconds=self._max_seconds,
        )
        return engine.sample(requests, sampling)

    def close(self) -> None:
        """Give the last adapter up; a server that is gone has none."""
        if self._loaded is None:
            return
        name, self._loaded = self._loaded, None
        try:
            self._give_up(name)
        except EngineError as error:
            _log.warning("the adapter %s stays where it was pushed: %s", name, error)

    def _written(self, policy_version: int) -> Path:
        """The adapter's directory, whole; the same weights under the same version have the same."""
        part = self._directory / ".part"
        shutil.rmtree(part, ignore_errors=True)  # of a push that failed half-way
        part.mkdir(parents=True)
        save_adapter(self._model, part, base=self._base)
        digest = hashlib.sha256((part / _WEIGHTS).read_bytes()).hexdigest()[:12]
        path = self._directory / f"{self._directory.name}-{policy_version}-{digest}"
        if not path.exists():
            part.rename(path)
        return path

    def _load(self, path: Path) -> None:
        status, said = self._post("load_lora_adapter", {"lora_name": path.name, "lora_path": str(path)})
        if status != HTTPStatus.OK:
            rank = len(next(adapters(self._model))[1].lora_A)
            raise EngineError(
                f"vLLM at {self._endpoint.url} did not load the adapter {path} ({status}: {said}); start it with "
                f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, --enable-lora and --max-lora-rank of at least {rank}, on the "
                "run's base, where it can read that path"
            )

    def _give_up(self, name: str) -> None:
        status, said = self._post("unload_lora_adapter", {"lora_name": name})
        if status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:  # not found: the server was started again
            raise EngineError(f"vLLM did not unload the adapter {name} ({status}: {said}); look at its log")
        shutil.rmtree(self._directory / name)

    def _post(self, call: str, body: Mapping[str, str]) -> tuple[int, str]:
        return asyncio.run(self._posted(f"{self._endpoint.url}/v1/{call}", body))

    async def _posted(self, url: str, body: Mapping[str, str]) -> tuple[int, str]:
        key = self._endpoint.api_key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                asyncio.timeout(self._max_push_s),
                aiohttp.ClientSession(headers=headers) as session,
                session.post(url, json=body) as response,
            ):
                return response.status, (await response.text())[:300]
        except TimeoutError:
            raise EngineError(
                f"{url} did not answer within {self._max_push_s:.0f} s; see in the engine's log what holds it up"
            ) from None
        except aiohttp.ClientError as error:
            raise EngineError(f"{url} cannot be reached ({error}); is the engine up?") from error


@contextmanager
def pushing(model: Llama, endpoint: Endpoint, scratch: Path, *, base: str) -> Iterator[VllmSampler]:
    """A sampler whose adapters lie below `scratch`; when it is left, neither the server nor the disk has them."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="policy-", dir=scratch) as directory:
        sampler = VllmSampler(model, endpoint, Path(directory), base=base)
        try:
            yield sampler
        finally:
            sampler.close()
