"""An engine that is simulated: its speed is a product over knobs, its noise is drawn, and time is what a clock says."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from loadtests.tuning.figures import Figures
from loadtests.tuning.search import EngineDown
from loadtests.tuning.space import Knob, Setting, Value

SPACE = (
    Knob(name="threads", default=2, values=(1, 2, 4)),
    Knob(name="repack", default=True, values=(True, False)),
    Knob(name="batch", default=512, values=(128, 256, 512, 1024)),
    Knob(name="attention", default="auto", values=("auto", "off")),
)


@dataclass
class Workshop:
    """Opens simulated servers.

    `speeds[knob, value]` is a factor. Each measurement is disturbed by `noise` (standard deviation of its logarithm),
    each server by `luck` for its life, and the whole machine by a slow wave, which is the same for both of a round.
    """

    seed: int = 0
    speeds: Mapping[tuple[str, Value], float] = field(default_factory=dict)
    noise: float = 0.05
    luck: float = 0.0
    wave: float = 0.3
    broken: Setting = field(default_factory=dict)
    lossy: Setting = field(default_factory=dict)
    now_s: float = 0.0
    num_open: int = 0
    max_open: int = 0
    num_starts: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def clock(self) -> float:
        return self.now_s

    @asynccontextmanager
    async def open(self, setting: Setting) -> AsyncIterator[SimulatedEngine]:
        """A server, counted while it is open."""
        self.now_s += 3
        if set(setting.items()) & set(self.broken.items()):
            raise EngineDown("no such kernel")
        self.num_starts += 1
        self.num_open += 1
        self.max_open = max(self.max_open, self.num_open)
        try:
            yield SimulatedEngine(self, setting, math.exp(self._rng.gauss(0, self.luck)))
        finally:
            self.num_open -= 1

    def disturbance(self) -> float:
        self.now_s += 2
        slow = self.wave * math.sin(self.now_s / 60)
        return math.exp(self._rng.gauss(0, self.noise) + slow)


@dataclass
class SimulatedEngine:
    """One of its servers."""

    workshop: Workshop
    setting: Setting
    luck: float

    async def figures(self, seed: int) -> Figures:
        await asyncio.sleep(0)  # here a search may be cancelled
        factor = math.prod(self.workshop.speeds.get(item, 1.0) for item in self.setting.items())
        speeds = [100 * self.luck * factor * self.workshop.disturbance() for _ in range(3)]
        return Figures(
            alone_tokens_per_s=speeds[0],
            streams_tokens_per_s=2 * speeds[1],
            first_token_s=20 / speeds[2],
        )

    async def greedy_answers(self) -> tuple[str, ...]:
        is_lossy = set(self.setting.items()) & set(self.workshop.lossy.items())
        return ("Paris?",) if is_lossy else ("Paris.",)
