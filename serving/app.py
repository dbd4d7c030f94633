"""One gateway process, put together: engines below, pools between, the HTTP front above. It alone knows all."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import version

import aiohttp
from prometheus_client import CollectorRegistry

from router.evidence import NOTHING_KNOWN, Evidence, known_of
from router.policy import RoutingPolicy
from serving.bringup.draft_model import draft_model
from serving.bringup.materialize import engine_model
from serving.bringup.progress import LineReport
from serving.engines.base import Endpoint, Engine, EngineCapabilities
from serving.engines.engine_log import EngineLog
from serving.engines.external import ExternalEngine, ExternalSettings
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.machine import this_machine
from serving.engines.supervisor import Supervisor
from serving.escalation_file import load_escalation
from serving.gateway.admin import Administration
from serving.gateway.audit import AuditLog
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.feedback import Feedback, ledger_lookup
from serving.gateway.fleet import Fleet
from serving.gateway.front import Front
from serving.gateway.holdback import Holdback
from serving.gateway.keys import KeyStore
from serving.gateway.router_artifact import load_difficulty
from serving.gateway.routes import model_names, operations
from serving.gateway.service import Service
from serving.gateway.session import Sessions
from serving.gateway.shadow import Shadows
from serving.gateway.state_file import StateFile
from serving.gateway.steering import Steering
from serving.gateway.whatif import Hindsights
from serving.ledger.database import ledger_url
from serving.ledger.store import Ledger
from serving.registry.store import Store
from serving.settings import Settings, TierSettings
from serving.settings_sources import environment, secret
from serving.telemetry.budget_series import BudgetSeries
from serving.telemetry.escalation_series import EscalationSeries
from serving.telemetry.evidence_series import EvidenceSeries
from serving.telemetry.feedback_series import FeedbackSeries
from serving.telemetry.log import LogWriter
from serving.telemetry.metrics import Metrics
from serving.telemetry.shadow_series import ShadowSeries
from serving.upstream.client import UpstreamClient
from serving.upstream.pool import Pool
from serving.upstream.retry import RetryBudget

PROBE_INTERVAL_S = 1.0
"""How often an external server that does not answer is asked again."""

_log = logging.getLogger(__name__)


class Gateway:
    """The parts of one process, and the order in which they begin and end.

    Args:
        settings: the resolved tree.
        keys: the API keys; None where requests need none.
        log: where a line goes for each request.
        on_progress: told, for a person, what is being started.
    """

    def __init__(
        self, settings: Settings, *, keys: KeyStore | None, log: LogWriter, on_progress: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.is_draining = False
        self._keys = keys
        self._on_progress = on_progress
        self._metrics = Metrics(
            CollectorRegistry(),
            tiers=settings.tiers,
            arms=[arm.name for arm in settings.resolved_arms],
            version=version("tierwise"),
        )
        self._fleet = Fleet(settings, [self._pool(name) for name in settings.tiers])
        self._client = UpstreamClient()
        self._ledger = Ledger(
            settings.ledger,
            settings.home,
            on_written=self._metrics.series.ledger_records_written_total.inc,
            on_dropped=self._metrics.series.ledger_records_dropped_total.inc,
        )
        self._budget = BudgetKeeper(
            settings.budget,
            StateFile(settings.home / "budget.json"),
            BudgetSeries(self._metrics.registry),
            monotonic=time.monotonic,
            wall_clock=time.time,
        )
        difficulty = load_difficulty(settings, Store(settings.home / "registry"))
        on_progress(f"router: {difficulty.told}")
        self._metrics.series.router_info.labels(difficulty.model.version).set(1)
        model, header = difficulty.model, difficulty.header
        known = NOTHING_KNOWN if header is None else known_of(header)
        arms = [arm.name for arm in settings.resolved_arms]
        self._evidence = EvidenceKeeper(
            lambda: Evidence(model.version, watched=model.watched, arms=arms, known=known),
            self._budget,
            StateFile(settings.home / "evidence.json"),
            EvidenceSeries(self._metrics.registry, arms=arms),
            wall_clock=time.time,
        )
        self._feedback = Feedback(
            self._ledger,
            ledger_lookup(ledger_url(settings.ledger.url, settings.home)),
            self._evidence,
            FeedbackSeries(self._metrics.registry, arms=arms),
            wall_clock=time.time,
        )
        self._shadows = Shadows(
            settings,
            fleet=self._fleet,
            client=self._client,
            ledger=self._ledger,
            feedback=self._feedback,
            series=ShadowSeries(self._metrics.registry, arms=arms),
            monotonic=time.monotonic,
            wall_clock=time.time,
            new_id=lambda: f"shadow_{secrets.token_hex(12)}",
            rng=random.Random(),
        )
        escalation = settings.router.escalation
        self.service = Service(
            settings=settings,
            fleet=self._fleet,
            holdback=Holdback(
                load_escalation(escalation),
                escalation.band,
                max_s=escalation.max_ms / 1000,
                fleet=self._fleet,
                series=EscalationSeries(self._metrics.registry, tiers=settings.tiers),
                clock=time.monotonic,
            ),
            steering=Steering(
                RoutingPolicy(
                    model,
                    min_quality=settings.router.min_quality,
                    exploration_share=settings.router.exploration_share,
                ),
                self._budget,
                Sessions(),
                self._feedback,
                self._evidence,
                monotonic=time.monotonic,
                rng=random.Random(),
            ),
            shadows=self._shadows,
            client=self._client,
            keys=keys,
            ledger=self._ledger,
            metrics=self._metrics,
            log=log,
            retry_budget=RetryBudget(),
            monotonic=time.monotonic,
            wall_clock=time.time,
            new_id=_new_id,
        )
        self.app = self._application()
        self._machine = this_machine()  # before any engine takes its share
        self._running = AsyncExitStack()

    @property
    def needs_key(self) -> bool:
        """Whether requests need an API key."""
        return self._keys is not None

    @property
    def model_names(self) -> list[str]:
        """What a request's `model` may say."""
        return model_names(self.settings, self._fleet)

    async def start(self) -> None:
        """Start every tier, all at once; return when each has been up.

        Raises:
            EngineError: an engine cannot be started; the message tells why and what to do.
            RegistryError: a tier's model is not there, or is not what was published.
        """
        await self._running.enter_async_context(self._budget)
        await self._running.enter_async_context(self._evidence)
        await self._running.enter_async_context(self._client)
        session = await self._running.enter_async_context(aiohttp.ClientSession())
        try:
            async with asyncio.TaskGroup() as starting:
                for name, tier in self.settings.tiers.items():
                    starting.create_task(self._start_tier(name, tier, session))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # the first tier that failed had the others cancelled

    async def stop(self) -> None:
        """End the engines, close every connection, and write what the ledger still holds."""
        await self._shadows.close()
        await self._running.aclose()
        await asyncio.to_thread(self._ledger.close)

    async def _start_tier(self, name: str, tier: TierSettings, session: aiohttp.ClientSession) -> None:
        if isinstance(tier.engine, ExternalSettings):
            engine = ExternalEngine(tier.engine, secret(tier.engine.api_key_env))
            for endpoint in engine.endpoints():
                await self._find(name, engine, endpoint, session)
        else:
            await self._launch(name, tier, session)

    async def _launch(self, name: str, tier: TierSettings, session: aiohttp.ClientSession) -> None:
        """Start a child process and see to it that it runs until `stop`."""
        assert isinstance(tier.engine, LlamaCppSettings), "the only engine that is launched"
        assert tier.model is not None, "settings ask for the model of an engine that is launched"
        self._on_progress(f"{name}: starting {tier.model}")
        store = Store(self.settings.home / "registry")
        report = LineReport(lambda line: self._on_progress(f"{name}: {line}"))
        model = await asyncio.to_thread(
            engine_model, store, tier.model, report, quantization=tier.engine.quantization
        )
        draft = await asyncio.to_thread(draft_model, store, tier.engine.draft, report)
        is_up = asyncio.Event()

        def on_ready(endpoint: Endpoint, capabilities: EngineCapabilities) -> None:
            self._fleet.replica_up(name, endpoint, capabilities)
            self._metrics.tier(name).ready.inc()
            self._on_progress(f"{name}: {capabilities.model_id} is ready")
            is_up.set()

        def on_down(url: str, reason: str) -> None:
            self._fleet.replica_down(name, url)
            self._metrics.tier(name).ready.dec()
            if not self.is_draining:
                self._metrics.tier(name).restarts.inc()
                _log.error("the engine of the %s tier is started again: %s", name, reason)

        supervisor = Supervisor(
            name,
            LlamaCppEngine(
                tier.engine, num_sharing=self._num_launched, machine=self._machine, draft_model=draft
            ),
            model=model,
            log=EngineLog(self.settings.home / "logs" / f"{name}.log"),
            environ=environment(),
            on_ready=on_ready,
            on_down=on_down,
            clock=time.monotonic,
        )
        running = asyncio.create_task(supervisor.run(session), name=f"engine {name}")
        self._running.push_async_callback(_ended, running)
        waiting = asyncio.create_task(is_up.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()

    async def _find(
        self, name: str, engine: Engine, endpoint: Endpoint, session: aiohttp.ClientSession
    ) -> None:
        """Wait for a server that somebody else runs."""
        if not await engine.is_ready(session, endpoint):
            self._on_progress(f"{name}: {endpoint.url} does not answer yet; asking again every second")
            while not await engine.is_ready(session, endpoint):  # noqa: ASYNC110 - a server tells nobody that it is up
                await asyncio.sleep(PROBE_INTERVAL_S)
        capabilities = await engine.capabilities(session, endpoint)
        self._fleet.replica_up(name, endpoint, capabilities)
        self._metrics.tier(name).ready.inc()
        self._on_progress(f"{name}: {capabilities.model_id} at {endpoint.url}")

    @property
    def _num_launched(self) -> int:
        """Engines that share this machine."""
        return sum(isinstance(tier.engine, LlamaCppSettings) for tier in self.settings.tiers.values())

    def _pool(self, tier: str) -> Pool:
        limits = self.settings.gateway
        return Pool(
            tier,
            max_queue=limits.max_queue,
            queue_timeout_s=limits.queue_timeout_s,
            clock=time.monotonic,
            rng=random.Random(),
            on_change=self._pool_changed,
        )

    def _pool_changed(self, pool: Pool) -> None:
        series = self._metrics.tier(pool.tier)
        series.in_flight.set(pool.in_flight)
        series.queue_length.set(pool.num_waiting)
        self._shadows.pools_changed()

    def _application(self) -> Front:
        app = operations(
            settings=self.settings,
            fleet=self._fleet,
            metrics=self._metrics,
            started_at=int(time.time()),
            is_draining=lambda: self.is_draining,
            authenticate=lambda request: self.service.authenticate(request.headers),
        )
        administration = Administration(
            self._budget,
            self._evidence,
            self._keys or KeyStore(self.settings.home / "keys.json"),
            asks_for_keys=self.needs_key,
            audit=AuditLog(self.settings.home / "audit.jsonl"),
            wall_clock=time.time,
        )
        administration.add_to(app)
        hindsights = Hindsights(
            ledger_url(self.settings.ledger.url, self.settings.home), wall_clock=time.time
        )
        hindsights.add_to(app, administration.administrator)
        self._feedback.add_to(app, lambda request: self.service.authenticate(request.headers))
        return Front(self.service, app, _new_id)


def _new_id() -> str:
    return f"req_{secrets.token_hex(12)}"


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel `task` and wait until it has cleaned up."""
    task.cancel()
    await asyncio.wait({task})
