"""The gateway's parts on a real port in the test's own event loop, before mock upstreams, and what they wrote down.

    async with LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.chat({"model": "fast"})

Everything is what a process runs, but for the engines (tiers are external) and the ledger and the log, which keep their
records in a list. `GET` routes are there too. `idle` says that nothing of any request is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import httpx
import tomli_w
import uvicorn
from prometheus_client import CollectorRegistry

from router.difficulty import StructuralHeuristic
from router.drift import DriftConfig
from router.escalation import EscalationModel
from router.evidence import Evidence
from router.policy import RoutingPolicy
from serving.engines.base import Endpoint, EngineCapabilities
from serving.gateway.admin import Administration
from serving.gateway.audit import AuditLog
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.feedback import Feedback, ledger_lookup
from serving.gateway.fleet import Fleet
from serving.gateway.front import Front
from serving.gateway.holdback import Holdback
from serving.gateway.keys import KeyStore
from serving.gateway.routes import operations
from serving.gateway.service import Service
from serving.gateway.session import Sessions
from serving.gateway.shadow import Shadows
from serving.gateway.state_file import StateFile
from serving.gateway.steering import Steering
from serving.gateway.whatif import Hindsights
from serving.ledger.database import ledger_url
from serving.ledger.records import AttemptRecord, DecisionRecord, FeedbackRecord, Outcome
from serving.server import http_config
from serving.settings import Settings
from serving.telemetry.budget_series import BudgetSeries
from serving.telemetry.escalation_series import EscalationSeries
from serving.telemetry.evidence_series import EvidenceSeries
from serving.telemetry.feedback_series import FeedbackSeries
from serving.telemetry.metrics import Metrics
from serving.telemetry.shadow_series import ShadowSeries
from serving.upstream.client import UpstreamClient
from serving.upstream.pool import Pool
from serving.upstream.retry import RetryBudget
from tests.fakes import MockUpstream

HI = [{"role": "user", "content": "hi"}]
PRICES = {"fast": {"input": 0.2, "output": 0.8}, "full": {"input": 1.0, "output": 4.0}}
DEADLINES = {"connect_s": 1.0, "first_token_s": 5.0, "idle_s": 5.0, "total_s": 20.0}
NOWHERE = "/nonexistent/tierwise"
"""A home that nothing is read from and nothing written to, unless a test names one of its own in `settings`."""
GAUGES = ("tierwise_requests_in_flight", "tierwise_replica_in_flight", "tierwise_queue_length")


@dataclass
class Books:
    """Stands in for the ledger and the log: keeps what it is told."""

    decisions: list[DecisionRecord] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    feedback: list[FeedbackRecord] = field(default_factory=list)

    def record_decision(self, record: DecisionRecord) -> None:
        self.decisions.append(record)

    def record_attempt(self, record: AttemptRecord) -> None:
        self.attempts.append(record)

    def record_feedback(self, record: FeedbackRecord) -> None:
        self.feedback.append(record)

    def request(self, decision: DecisionRecord, attempts: Sequence[AttemptRecord]) -> None:
        assert decision is self.decisions[-1]

    @property
    def outcomes(self) -> list[Outcome]:
        return [attempt.outcome for attempt in self.attempts]

    @property
    def statuses(self) -> list[int]:
        return [decision.status for decision in self.decisions]


class LiveGateway:
    """Tiers by name, each with its upstreams: mocks, or URLs where nobody listens."""

    def __init__(
        self,
        tiers: Mapping[str, Sequence[MockUpstream | str]],
        *,
        deadlines: Mapping[str, float] = DEADLINES,
        max_in_flight: int = 64,
        engine: Mapping[str, Any] = {},
        is_supervised: bool = False,
        retry_budget: RetryBudget | None = None,
        keys: Any = None,
        policy: RoutingPolicy | None = None,
        drift: DriftConfig | None = None,
        escalation: EscalationModel | None = None,
        settings: Mapping[str, Any] = {},
        **gateway: Any,
    ) -> None:
        urls = {name: [_url(upstream) for upstream in upstreams] for name, upstreams in tiers.items()}
        self.settings = Settings.model_validate(
            {
                "home": NOWHERE,
                "gateway": gateway,
                "tiers": {
                    name: {
                        **(CHILD if is_supervised else external(urls[name])),
                        "price": PRICES.get(name, PRICES["full"]),
                        "deadlines": {**DEADLINES, **deadlines},
                    }
                    for name in urls
                },
                **settings,
            }
        )
        self.books = Books()
        self._keys = keys
        self.is_draining = False
        self.metrics = Metrics(
            CollectorRegistry(),
            tiers=self.settings.tiers,
            arms=[arm.name for arm in self.settings.resolved_arms],
            version="test",
        )
        self.fleet = Fleet(self.settings, [self._pool(name) for name in urls])
        self._upstream_client = UpstreamClient()
        self._ids = count()
        self.budget = BudgetKeeper(
            self.settings.budget,
            StateFile(self.settings.home / "budget.json"),
            BudgetSeries(self.metrics.registry),
            monotonic=time.monotonic,
            wall_clock=time.time,
        )
        policy = policy or RoutingPolicy(StructuralHeuristic())
        model, arms = policy.model, [arm.name for arm in self.settings.resolved_arms]
        self.evidence = EvidenceKeeper(
            lambda: Evidence(model.version, watched=model.watched, arms=arms, config=drift),
            self.budget,
            StateFile(self.settings.home / "evidence.json"),
            EvidenceSeries(self.metrics.registry, arms=arms),
            wall_clock=time.time,
        )
        self.feedback = Feedback(
            self.books,  # type: ignore[arg-type]
            ledger_lookup(ledger_url(None, self.settings.home)),
            self.evidence,
            FeedbackSeries(self.metrics.registry, arms=arms),
            wall_clock=time.time,
        )
        band = self.settings.router.escalation
        self.shadows = Shadows(
            self.settings,
            fleet=self.fleet,
            client=self._upstream_client,
            ledger=self.books,  # type: ignore[arg-type]
            feedback=self.feedback,
            series=ShadowSeries(self.metrics.registry, arms=arms),
            monotonic=time.monotonic,
            wall_clock=time.time,
            new_id=lambda: f"shadow_{next(self._ids)}",
            rng=random.Random(0),
        )
        self.service = Service(
            settings=self.settings,
            fleet=self.fleet,
            holdback=Holdback(
                escalation or EscalationModel(()),
                band.band,
                max_s=band.max_ms / 1000,
                fleet=self.fleet,
                series=EscalationSeries(self.metrics.registry, tiers=self.settings.tiers),
                clock=time.monotonic,
            ),
            steering=Steering(
                policy,
                self.budget,
                Sessions(),
                self.feedback,
                self.evidence,
                monotonic=time.monotonic,
                rng=random.Random(0),
            ),
            shadows=self.shadows,
            client=self._upstream_client,
            keys=keys,
            ledger=self.books,  # type: ignore[arg-type]
            metrics=self.metrics,
            log=self.books,  # type: ignore[arg-type]
            retry_budget=retry_budget or RetryBudget(),
            monotonic=time.monotonic,
            wall_clock=time.time,
            new_id=self._new_id,
        )
        self._replicas = [(name, url) for name in urls for url in urls[name]]
        self._max_in_flight = max_in_flight
        self._engine = engine
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._upstream_client)
        for tier, url in self._replicas:
            self.add_replica(tier, url)
        self.port = await self._stack.enter_async_context(served(self._application()))
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = await self._stack.enter_async_context(httpx.AsyncClient(base_url=self.url, timeout=20))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shadows.close()
        await self._stack.aclose()

    def add_replica(self, tier: str, url: str) -> None:
        """A replica becomes ready."""
        engine = {
            "model_id": "mock-model",
            "context_tokens": 8192,
            "num_slots": self._max_in_flight,
            "endpoints": frozenset({"chat", "completions", "embeddings"}),
            **self._engine,
        }
        self.fleet.replica_up(tier, Endpoint(url=url, api_key="upstream-key"), EngineCapabilities(**engine))

    async def chat(
        self,
        body: Mapping[str, Any] = {},
        *,
        headers: Mapping[str, str] = {},
        path: str = "/v1/chat/completions",
    ) -> httpx.Response:
        """Send a chat request and read the whole answer."""
        return await self.http.post(path, json={"model": "fast", "messages": HI, **body}, headers=headers)

    async def stream(self, body: Mapping[str, Any] = {}, **options: Any) -> StreamedAnswer:
        """Send a streaming chat request and read it to its end."""
        response = await self.chat({"stream": True, **body}, **options)
        return StreamedAnswer(response)

    def gauge(self, name: str) -> float:
        """The sum of a metric over its labels."""
        samples = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.metrics.render().decode(), re.MULTILINE)
        return sum(map(float, samples))

    @property
    def is_idle(self) -> bool:
        """Whether every gauge is at zero, every permit free, and no request open."""
        in_flight = sum(tier.pool.in_flight + tier.pool.num_waiting for tier in self.fleet)
        num_running = self.service.num_running + self.shadows.num_running
        return not in_flight and not num_running and not any(map(self.gauge, GAUGES))

    async def until(self, claim: Callable[[], object], timeout_s: float = 5.0) -> None:
        """Wait for `claim` to hold."""
        async with asyncio.timeout(timeout_s):
            while not claim():  # noqa: ASYNC110 - anything may be claimed, and nobody tells
                await asyncio.sleep(0.005)

    async def idle(self, timeout_s: float = 1.0) -> None:
        """Wait until nothing is left of any request.

        Raises:
            TimeoutError: something is, after `timeout_s`.
        """
        await self.until(lambda: self.is_idle, timeout_s)

    def _new_id(self) -> str:
        return f"req_{next(self._ids)}"

    def _pool(self, tier: str) -> Pool:
        limits = self.settings.gateway
        return Pool(
            tier,
            max_queue=limits.max_queue,
            queue_timeout_s=limits.queue_timeout_s,
            clock=time.monotonic,
            rng=random.Random(0),
            on_change=self._pool_changed,
        )

    def _pool_changed(self, pool: Pool) -> None:
        series = self.metrics.tier(pool.tier)
        series.in_flight.set(pool.in_flight)
        series.queue_length.set(pool.num_waiting)
        self.shadows.pools_changed()

    def _application(self) -> Front:
        app = operations(
            settings=self.settings,
            fleet=self.fleet,
            metrics=self.metrics,
            started_at=1_700_000_000,
            is_draining=lambda: self.is_draining,
            authenticate=lambda request: self.service.authenticate(request.headers),
        )
        administration = Administration(
            self.budget,
            self.evidence,
            self._keys or KeyStore(self.settings.home / "keys.json"),
            asks_for_keys=self._keys is not None,
            audit=AuditLog(self.settings.home / "audit.jsonl"),
            wall_clock=time.time,
        )
        administration.add_to(app)
        hindsights = Hindsights(ledger_url(None, self.settings.home), wall_clock=time.time)
        hindsights.add_to(app, administration.administrator)
        self.feedback.add_to(app, lambda request: self.service.authenticate(request.headers))
        return Front(self.service, app, self._new_id)


CHILD: Final = {"engine": {"type": "llamacpp"}, "model": "full@stable"}
"""A tier whose engine the process would start and start again; here tests do, by `add_replica`."""


def external(urls: Sequence[str]) -> dict[str, Any]:
    """A tier of servers that somebody else runs."""
    return {"engine": {"type": "external", "urls": urls or ["http://127.0.0.1:1"]}}


class StreamedAnswer:
    """A streamed chat answer, read to its end."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.wire = response.content
        self.data = [line[6:] for line in self.wire.decode().splitlines() if line.startswith("data: ")]
        self.objects: list[dict[str, Any]] = [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def has_done(self) -> bool:
        return self.data[-1:] == ["[DONE]"]

    @property
    def error(self) -> dict[str, Any] | None:
        """Of the last object, or of the body where there is no stream."""
        last = self.objects[-1] if self.objects else {}
        return last.get("error")  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """All that the first choice says."""
        choices = (choice for told in self.objects for choice in told.get("choices", ()))
        return "".join(c["delta"].get("content") or "" for c in choices if c["index"] == 0)

    @property
    def usages(self) -> list[dict[str, Any]]:
        return [told["usage"] for told in self.objects if told.get("usage")]


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    """Serve an ASGI application as the gateway's process does; its port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = _Server(http_config(app))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(0.005)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await serving


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are pytest's


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A raw connection, closed at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(
    body: bytes, *, path: str = "/v1/chat/completions", content_length: int = 0, **headers: str
) -> bytes:
    """The bytes of a POST, whose body may be shorter than it says."""
    lines = [f"POST {path} HTTP/1.1", "host: gateway", f"content-length: {content_length or len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _url(upstream: MockUpstream | str) -> str:
    return upstream if isinstance(upstream, str) else upstream.url


@dataclass
class RunningProcess:
    """A `tierwise serve` process of its own."""

    process: asyncio.subprocess.Process
    url: str
    output: str
    """What it had said when it was ready."""

    async def ended(self, timeout_s: float = 15.0) -> int:
        """Wait for its end; the exit status."""
        return await asyncio.wait_for(self.process.wait(), timeout_s)


@contextlib.asynccontextmanager
async def serving_process(*arguments: str, cwd: Path, waits: bool = True) -> AsyncIterator[RunningProcess]:
    """Run `tierwise serve` on a free port until the block ends.

    Args:
        arguments: after the verb.
        cwd: its working directory and home.
        waits: until it says that it serves.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "serving", "--port", "0", "--home", str(cwd), *arguments),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    output = ""
    try:
        while waits and (line := (await asyncio.wait_for(process.stdout.readline(), 60)).decode()):
            output += line
            if "Ctrl-C" in line:
                break
        url = re.search(r"http://\S+?:\d+(?=/v1)", output)
        yield RunningProcess(process, url.group() if url else "", output)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def config_file(path: Path, tiers: Mapping[str, MockUpstream | str], **gateway: Any) -> str:
    """Write a TOML configuration of external tiers; its path."""
    tree = {
        "gateway": gateway,
        "tiers": {
            name: {
                "engine": {"type": "external", "urls": [_url(upstream)], "model": "mock-model"},
                "price": PRICES[name],
            }
            for name, upstream in tiers.items()
        },
    }
    path.write_text(tomli_w.dumps(tree))
    return str(path)
