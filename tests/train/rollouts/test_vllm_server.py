"""A real vLLM server, and a policy that is pushed to it. `make vllm-cpu` builds what it needs on CPUs.

TIERWISE_TEST_VLLM_URL names a server that runs already, on a GPU for example, with the options of `running`; it has to
serve the packaged base in float32 and see this file system.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
from torch import Tensor

from serving.engines.base import Endpoint, EngineError
from serving.engines.supervisor import free_port
from serving.engines.tether import tethered
from serving.registry.store import Store
from serving.settings import default_home
from tests.train.test_publish import quiet
from train.base import locate
from train.batch import Credit, Group
from train.commands import run as train_run
from train.model.llama import Llama
from train.model.lora import adapters, add_lora
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason
from train.rollouts.vllm import VllmSampler, pushing
from train.run_directory import read_metrics
from train.staleness import fresh

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))

PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"
START_TIMEOUT_S = 900
MAX_RANK = 8
TOLERANCE = 5e-4
"""Nats, of one token's log-probability between two implementations of float32; 2e-5 was seen over 36 tokens."""
GREEDY = Sampling(temperature=0, max_tokens=12)
PROMPTS = [tuple(range(1000 + 300 * each, 1000 + 300 * each + num)) for each, num in enumerate((5, 40, 100))]
"""The longer ones fill blocks of the prefix cache."""


@dataclass(frozen=True)
class Served:
    url: str
    base: Path
    home: Path

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(url=self.url)

    def names(self) -> list[str]:
        """What the server has, the base first."""
        return [each["id"] for each in httpx.get(f"{self.url}/v1/models", timeout=60).json()["data"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The packaged SmolLM2 in float32, whose adapters come and go."""
    home = Path(os.environ.get("TIERWISE_HOME") or default_home())
    base = locate("smollm2", Store(home / "registry"), quiet())
    if url := os.environ.get("TIERWISE_TEST_VLLM_URL"):
        yield Served(url, base, home)
        return
    log = tmp_path_factory.mktemp("vllm") / "log"
    with running(base, log) as url:
        yield Served(url, base, home)


@contextmanager
def running(base: Path, log: Path) -> Iterator[str]:
    """A server on `base`, until it is left; where it listens."""
    if not PYTHON.exists():
        pytest.fail("this test needs vLLM in an environment of its own: run `make vllm-cpu`")
    port = free_port()
    options = {
        "--model": str(base),
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "float32",
        "--max-model-len": "512",
        "--max-num-seqs": "16",
        "--block-size": "32",
        "--max-lora-rank": str(MAX_RANK),
    }
    flags = ("--enforce-eager", "--enable-lora", "--enable-prefix-caching")
    argv = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", *flags]
    argv += [word for pair in options.items() for word in pair]
    own = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            tethered(tuple(argv), os.getpid()),
            env={**os.environ, **own},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the session is of this server alone: its engine and workers
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    pytest.fail(f"the server did not become ready; its last words:\n{log.read_text()[-3000:]}")


def adapted(base: Path, rank: int = MAX_RANK) -> Llama:
    model = load_llama(base)
    add_lora(model, rank=rank, alpha=16.0, seed=0)
    return model


def move(model: Llama, seed: int) -> None:
    """Other weights, a step's worth and more."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, adapter in adapters(model):
            adapter.lora_B.add_(torch.empty(adapter.lora_B.shape).normal_(0, 0.02, generator=generator))


def drawn(
    sampler: VllmSampler, sampling: Sampling, seeds: Sequence[int] = (1,)
) -> tuple[list[Group], Tensor]:
    """Groups of answers to every prompt, and what the server said of each token, (tokens,)."""
    answers = sampler.sample([SampleRequest(prompt, tuple(seeds)) for prompt in PROMPTS], sampling)
    groups = [
        Group("any", prompt, tuple(_credit(prompt, span) for span, _ in row))
        for prompt, row in zip(PROMPTS, answers, strict=True)
    ]
    told = [each for row in answers for span, _ in row for each in span.behavior_logprobs or ()]
    assert len(told) > 20
    return groups, torch.tensor(told)


def _credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.END), zeros, zeros)


@torch.no_grad()
def scored(model: Llama, groups: list[Group]) -> Tensor:
    return LlamaPolicy(model).score(groups).logprobs


def test_what_is_pushed_is_what_samples(served: Served, tmp_path: Path) -> None:
    """Under each version tokens have the log-probabilities of our own forward pass with those adapters, and none of
    another version's, cached prefixes included; what a version drew is refused once it is too old."""
    model, found = adapted(served.base), []
    with pushing(model, served.endpoint, tmp_path, base=str(served.base)) as sampler:
        for version in range(3):
            if version:
                move(model, version)
            sampler.update(version)
            assert served.names()[1:] == [sampler.adapter]
            groups, told = drawn(sampler, GREEDY)
            torch.testing.assert_close(told, scored(model, groups), rtol=0, atol=TOLERANCE)
            groups_at_1, told_at_1 = drawn(sampler, Sampling(temperature=1, max_tokens=8), seeds=(1, 2))
            torch.testing.assert_close(told_at_1, scored(model, groups_at_1), rtol=0, atol=TOLERANCE)
            if found:
                assert (scored(model, found[-1][0]) - found[-1][1]).abs().max() > 200 * TOLERANCE
            found.append((groups, told))
    assert len(served.names()) == 1
    kept = [fresh(groups, 2, 1) for groups, _ in found]
    assert [(len(each.groups), each.num_refused, each.staleness) for each in kept] == [
        (0, 3, 2),
        (3, 0, 1),
        (3, 0, 0),
    ]


def test_a_push_that_fails_leaves_the_version_before(served: Served, tmp_path: Path) -> None:
    """A rank above the server's is said with the remedy, and the server goes on; so are temperatures it cannot tell."""
    high = adapted(served.base, 2 * MAX_RANK)
    with (
        pushing(high, served.endpoint, tmp_path, base="any") as sampler,
        pytest.raises(EngineError, match=f"--max-lora-rank of at least {2 * MAX_RANK}"),
    ):
        sampler.update(1)
    with pushing(adapted(served.base), served.endpoint, tmp_path, base="any") as sampler:
        assert drawn(sampler, GREEDY)[0]
        with pytest.raises(ValueError, match="sample at 1"):
            drawn(sampler, Sampling(temperature=0.7, max_tokens=1))


def test_a_run_draws_from_the_server(served: Served, tmp_path: Path) -> None:
    """`tierwise train run r2` with `rl.rollouts_url` learns from what the server draws: ratios are 1, none is stale."""
    asked = {
        "base.source": served.base,
        "adapt": '{method = "lora", rank = 4}',
        "domains": '[{name = "letter_counting", levels = [0], max_answer_tokens = 8}]',
        "sft": "{num_steps = 2, items_per_step = 4, learning_rate = 1e-3, num_warmup_steps = 0}",
        "rl": "{num_steps = 2, groups_per_step = 4, rollouts_per_group = 4, learning_rate = 1e-4}",
        "rl.rollouts_url": served.url,
        "evaluation.num_items": 2,
    }
    words = [word for name, value in asked.items() for word in ("--set", f"{name}={value}")]
    out = tmp_path / "run"
    assert train_run.main(["r2", "--out", str(out), "--home", str(served.home), *words]) == 0
    steps = [line for line in read_metrics(out) if line["phase"] == "rl"]
    assert len(steps) == 2
    assert all((step["num_stale"], step["staleness"], step["is_applied"]) == (0, 0, True) for step in steps)
    learned = [step for step in steps if step["num_tokens"]]
    assert learned, "no group had answers of both kinds: nothing was compared"
    for step in learned:
        assert step["mean_ratio"] == pytest.approx(1, abs=TOLERANCE)
        assert step["max_ratio"] == pytest.approx(1, abs=5 * TOLERANCE)
    assert len(served.names()) == 1
