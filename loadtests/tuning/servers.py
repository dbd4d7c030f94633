"""The servers that are measured: a tier's engine by `tierwise engine run`, a vLLM by its interpreter. Each ends by id.

What a candidate is started with goes the whole way that the operator's TOML goes: through the settings, their checks
and the plan. All listen on loopback alone, with ports of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tomli_w

from loadtests.child_process import child_process
from loadtests.fetch import FetchError, fetch
from loadtests.gateway_process import free_port
from loadtests.tuning.load import ServedEngine
from loadtests.tuning.search import EngineDown
from loadtests.tuning.space import VLLM_CPU_KV_GIB, VLLM_CPU_KV_SPACE, Defaults, Setting, Value

TIER: Final = "tuned"
CONTEXT_TOKENS: Final = 2048
"""Of each slot while it is measured: long enough for every prompt of `load`."""
LLAMACPP_START_S: Final = 300.0
VLLM_START_S: Final = 1200.0
POLL_S: Final = 0.05
VLLM_MODULE: Final = "vllm.entrypoints.openai.api_server"
VLLM_GPU_SHARE: Final = 0.45
"""Of a GPU's memory: two servers are up at a time."""
_READY: Final = re.compile(
    r"curl (http://127\.0\.0\.1:\d+)/v1/chat/completions -H 'authorization: Bearer (\S+)'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A model on llama.cpp, as `tierwise engine describe` tells of it."""

    model: Path
    defaults: Defaults
    context_tokens: int


def describe(model: str, fixed: Setting, directory: Path) -> Described:
    """What would be started for a model.

    Raises:
        EngineDown: it is not there, or cannot be served; the message is the command's.
    """
    config = directory / "describe.toml"
    config.write_text(tomli_w.dumps(tier_config(TIER, model, fixed)))
    argv = [sys.executable, "-m", "tierwise", "engine", "describe", "--json", "--tier", TIER]
    done = subprocess.run([*argv, "--config", str(config)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineDown(_last_line(done.stderr).removeprefix("tierwise: "))
    told = json.loads(done.stdout)
    plan = told["plan"]
    return Described(
        model=Path(told["model"]),
        defaults=Defaults(threads=plan["threads"], threads_alone=plan["threads_alone"], slots=plan["slots"]),
        context_tokens=plan["context_tokens"],
    )


def tier_config(tier: str, model: str, setting: Setting) -> dict[str, Any]:
    """A configuration of one tier on llama.cpp. Its price is the shipped full tier's: a tier has to have one."""
    engine: dict[str, Any] = {"type": "llamacpp"}
    for name, value in setting.items():
        *path, leaf = name.split(".")
        node = engine
        for step in path:
            node = node.setdefault(step, {})
        node[leaf] = value
    return {"tiers": {tier: {"model": model, "price": {"input": 1.0, "output": 4.0}, "engine": engine}}}


class LlamaCppServers:
    """Starts llama.cpp with a setting.

    Args:
        described: the model.
        fixed: part of every setting.
        directory: where configurations and logs go.
    """

    def __init__(self, described: Described, fixed: Setting, directory: Path) -> None:
        self._model = str(described.model)
        context_tokens = min(CONTEXT_TOKENS, described.context_tokens)
        self._fixed: Setting = {"context_tokens": context_tokens, "prompt_cache_mib": 0, **fixed}
        self._directory = directory
        self._numbers = itertools.count()

    @asynccontextmanager
    async def open(self, setting: Setting) -> AsyncIterator[ServedEngine]:
        """As `search.OpenEngine`."""
        home = self._directory / f"{next(self._numbers):04}"
        home.mkdir()
        config = home / "tierwise.toml"
        config.write_text(tomli_w.dumps(tier_config(TIER, self._model, {**self._fixed, **setting})))
        argv = [sys.executable, "-m", "tierwise", "engine", "run", "--tier", TIER]
        log = home / "run.log"
        argv += ["--config", str(config), "--home", str(home)]
        with child_process(tethered(argv), log=log) as child:
            url, api_key = await _until(lambda: _ready(log), child, log, LLAMACPP_START_S)
            engine = ServedEngine(url=url, model=TIER, api_key=api_key, extra={"cache_prompt": False})
            await engine.warm_up()
            yield engine


class VllmServers:
    """Starts vLLM with a setting.

    Args:
        model: a checkpoint's directory, or a name that vLLM can find.
        fixed: part of every setting.
        python: the interpreter that has vLLM.
        is_gpu: rather than CPUs.
        directory: where logs go.
    """

    def __init__(self, model: str, fixed: Setting, *, python: Path, is_gpu: bool, directory: Path) -> None:
        self._model = model
        self._fixed = fixed
        self._python = python
        self._is_gpu = is_gpu
        self._directory = directory
        self._numbers = itertools.count()

    @asynccontextmanager
    async def open(self, setting: Setting) -> AsyncIterator[ServedEngine]:
        """As `search.OpenEngine`."""
        port = free_port()
        measured: dict[str, Value] = {"max-model-len": CONTEXT_TOKENS}
        if self._is_gpu:
            measured["gpu-memory-utilization"] = str(VLLM_GPU_SHARE)
        else:
            measured[VLLM_CPU_KV_SPACE] = VLLM_CPU_KV_GIB
        argv = vllm_argv(self._python, self._model, {**measured, **self._fixed, **setting}, port=port)
        log = self._directory / f"{next(self._numbers):04}.log"
        url = f"http://127.0.0.1:{port}"
        with child_process(tethered(argv), log=log) as child:
            await _until_healthy(url, child, log)
            engine = ServedEngine(url=url, model=TIER)
            await engine.warm_up()
            yield engine


def vllm_argv(python: Path, model: str, setting: Setting, *, port: int) -> list[str]:
    """The command line of a vLLM server: variables first, then flags, then options with values."""
    variables = {"VLLM_NO_USAGE_STATS": "1"} | {
        name: str(value) for name, value in setting.items() if name.isupper()
    }
    argv = ["env", *(f"{name}={value}" for name, value in variables.items()), str(python), "-m", VLLM_MODULE]
    argv += ["--model", model, "--served-model-name", TIER, "--host", "127.0.0.1", "--port", str(port)]
    for name, value in setting.items():
        if name.isupper():
            continue
        if isinstance(value, bool):
            argv.append(f"--{name}" if value else f"--no-{name}")
        else:
            argv += [f"--{name}", str(value)]
    return argv


def tethered(argv: Sequence[str]) -> list[str]:
    """The command line that ends with this process as well where it is killed and cannot end it."""
    return [sys.executable, "-P", "-m", "serving.engines.tether", str(os.getpid()), *argv]


async def _until(
    ask: Callable[[], tuple[str, str] | None], child: subprocess.Popen[bytes], log: Path, timeout_s: float
) -> tuple[str, str]:
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        if (found := ask()) is not None:
            return found
        _check(child, log)
        await asyncio.sleep(POLL_S)
    raise EngineDown(f"it was not ready within {timeout_s:g} s")


async def _until_healthy(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    give_up_s = time.monotonic() + VLLM_START_S
    while time.monotonic() < give_up_s:
        _check(child, log)
        try:
            if (await fetch(f"{url}/health", timeout_s=5.0)).status == 200:
                return
        except FetchError:
            await asyncio.sleep(10 * POLL_S)
    raise EngineDown(f"it was not ready within {VLLM_START_S:g} s")


def _check(child: subprocess.Popen[bytes], log: Path) -> None:
    if child.poll() is not None:
        said = _last_line(log.read_text(errors="replace")).removeprefix("tierwise: ")
        raise EngineDown(said or f"it ended with status {child.returncode}")


def _ready(log: Path) -> tuple[str, str] | None:
    found = _READY.search(log.read_text(errors="replace"))
    return None if found is None else (found[1], found[2])


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
