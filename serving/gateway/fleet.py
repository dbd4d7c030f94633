"""The tiers as the gateway sees them: each with its pool of replicas, what its engine offers, and what it charges."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from router.arms import Arm
from serving.engines.base import Endpoint, EngineCapabilities
from serving.gateway.arms import ASSUMED, arms_of
from serving.settings import Settings, TierSettings
from serving.upstream.deadlines import Deadlines
from serving.upstream.pool import Pool


class Tier:
    """One tier at run time."""

    def __init__(self, name: str, settings: TierSettings, pool: Pool) -> None:
        self.name = name
        self.settings = settings
        self.pool = pool
        self.deadlines = Deadlines(**settings.deadlines.model_dump())
        self.engine: EngineCapabilities | None = None
        """What the engine offers; None until a replica has been up once."""

    @property
    def is_supervised(self) -> bool:
        """Whether the engine is a child process of ours."""
        return self.settings.engine.type != "external"

    def is_available(self, failed: frozenset[str] = frozenset(), *, even_if_sick: bool = False) -> bool:
        """Whether a replica outside `failed` takes requests, and is in health unless `even_if_sick`."""
        if not even_if_sick and not self.pool.is_available:
            return False
        return any(not replica.is_draining and replica.url not in failed for replica in self.pool.replicas)

    def cost(self, *, num_input_tokens: float, num_output_tokens: float) -> float:
        """Money for so many tokens."""
        price = self.settings.price
        return (price.input * num_input_tokens + price.output * num_output_tokens) / 1e6


class Fleet:
    """All tiers. `arms` is what the router decides among at this moment."""

    def __init__(self, settings: Settings, pools: Iterable[Pool]) -> None:
        self._settings = settings
        self._tiers = {pool.tier: Tier(pool.tier, settings.tiers[pool.tier], pool) for pool in pools}
        self._changed = asyncio.Event()
        self._arms: dict[str, Arm] = {}
        self._refresh()

    def __getitem__(self, name: str) -> Tier:
        return self._tiers[name]

    def __iter__(self) -> Iterator[Tier]:
        return iter(self._tiers.values())

    @property
    def model_ids(self) -> dict[str, str]:
        """Concrete model ids → the tier that serves each."""
        return {tier.engine.model_id: tier.name for tier in self._tiers.values() if tier.engine is not None}

    @property
    def has_started(self) -> bool:
        """Whether every tier has been up once."""
        return all(tier.engine is not None for tier in self._tiers.values())

    @property
    def is_available(self) -> bool:
        """Whether any tier can take a request."""
        return any(tier.pool.is_available for tier in self._tiers.values())

    def replica_up(self, tier: str, endpoint: Endpoint, engine: EngineCapabilities) -> None:
        """A replica became ready: it takes requests from now on."""
        self._tiers[tier].engine = engine
        limit = self._tiers[tier].settings.max_in_flight or engine.num_slots
        endpoint = replace(endpoint, keeps_connections=engine.keeps_connections)
        self._tiers[tier].pool.add(endpoint, engine.model_id, limit)
        self._refresh()

    def replica_down(self, tier: str, url: str) -> None:
        """A replica is gone: it takes no new request."""
        self._tiers[tier].pool.remove(url)
        self._refresh()

    def arms(self, failed: frozenset[str] = frozenset(), *, even_if_sick: bool = False) -> tuple[Arm, ...]:
        """The arms, with whether each could take a request now.

        Args:
            failed: replicas that one request has seen fail: to that request, a tier with no other is down.
            even_if_sick: count replicas whose breaker is open: where nothing else is left, trying beats refusing.
        """
        available = {
            name: tier.is_available(failed, even_if_sick=even_if_sick) for name, tier in self._tiers.items()
        }
        return tuple(
            arm if arm.is_available == available[arm.tier] else replace(arm, is_available=available[arm.tier])
            for arm in self._arms.values()
        )

    @property
    def arms_by_name(self) -> Mapping[str, Arm]:
        """The arms, without regard to whether they could take a request now."""
        return self._arms

    def is_restarting(self, arms: Iterable[str], lost: frozenset[str]) -> bool:
        """Whether one of these arms may come back by itself: its engine is a child of ours, and not running.

        Args:
            arms: names of arms that are down.
            lost: replicas whose connection broke, which may not have been noticed anywhere else yet.
        """
        tiers = (self._tiers[self._arms[arm].tier] for arm in arms)
        return any(tier.is_supervised and not tier.is_available(lost, even_if_sick=True) for tier in tiers)

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return when a replica came or went, or after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def _refresh(self) -> None:
        engines = {name: tier.engine or ASSUMED for name, tier in self._tiers.items()}
        self._arms = {arm.name: arm for arm in arms_of(self._settings, engines)}
        self._changed.set()
        self._changed = asyncio.Event()
