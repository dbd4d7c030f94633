"""What `tierwise bench gateway` found, as frozen records in seconds and bytes; their JSON is `dataclasses.asdict`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadtests.blocks import Lane
from loadtests.comparison import BlockResult, LoadResult
from loadtests.machine import Machine
from loadtests.measures import Measure
from loadtests.process_usage import Usage
from loadtests.quantiles import Estimate, added_quantiles, quantile

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

LATENESS_LIMIT_S = 0.001
"""A generator whose p99 lateness is above this is measuring itself."""
GENERATOR_CPU_LIMIT = 0.7
"""Share of one core above which the generator queues its own work."""
MACHINE_CPU_LIMIT = 0.85
"""Share of all cores above which added latency is mostly waiting for a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReport:
    """One measure on both lanes."""

    name: str
    title: str
    num_direct: int
    num_gateway: int
    direct_s: dict[str, float]
    gateway_s: dict[str, float]
    added_s: dict[str, Estimate]
    """Gateway − direct, with 95 % intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """What was asked of one lane and what came back."""

    num_requests: int
    num_errors: int
    errors: dict[str, int]
    """How often each message came."""
    answers_per_s: float
    """Complete answers per second of load."""
    tokens_per_s: float
    """Streamed events with output per second of load."""
    num_new_connections: int
    tiers: dict[str, int]
    """Answers by `x-tierwise-tier`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCost:
    """What the gateway's process spent on its requests, with all that it does: routing, ledger, log, metrics."""

    cpu_s_per_request: float
    cpu_share: float
    """Of one core, while its lane was loaded."""
    rss_before_bytes: int
    """After the warm-up."""
    rss_after_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorReport:
    """Whether the load generator kept up: what it adds to both lanes."""

    lateness_p50_s: float
    lateness_p99_s: float
    lateness_max_s: float
    cpu_share: float
    """Of one core, while either lane was loaded."""
    upstream_cpu_share: float | None
    """The mock's, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    """Everything."""

    machine: Machine
    shape: dict[str, Any]
    """The options of the run."""
    measures: tuple[MeasureReport, ...]
    lanes: dict[str, LaneReport]
    gateway: GatewayCost | None
    """None where the gateway's process is not known."""
    generator: GeneratorReport
    load_average: float
    """Of the last minute before the run: processes that wanted a core, of whatever kind."""
    warnings: tuple[str, ...]
    """Why the numbers should not be trusted; empty when nothing speaks against them."""

    @property
    def num_errors(self) -> int:
        """On both lanes."""
        return sum(lane.num_errors for lane in self.lanes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a process used before and after the load."""

    before: Usage
    after: Usage

    @property
    def cpu_s(self) -> float:
        """In between."""
        return self.after.cpu_s - self.before.cpu_s


def make_report(
    result: LoadResult,
    *,
    machine: Machine,
    shape: dict[str, Any],
    measures: Sequence[Measure],
    load_s: float,
    gateway: Spent | None,
    upstream: Spent | None,
    load_average: float,
    seed: int,
) -> GatewayReport:
    """Sum up a run; `load_s` is how long each lane was under load."""
    lanes = {lane: [block for block in result.blocks if block.block.lane == lane] for lane in Lane}
    reports = {lane.value: _lane_report(blocks, load_s) for lane, blocks in lanes.items()}
    num_gateway_requests = reports[Lane.GATEWAY.value].num_requests
    generator = _generator_report(result, upstream, loaded_s=len(Lane) * load_s)
    return GatewayReport(
        machine=machine,
        shape=shape,
        measures=tuple(
            report for measure in measures if (report := _measure_report(measure, lanes, seed)) is not None
        ),
        lanes=reports,
        gateway=_gateway_cost(gateway, num_gateway_requests, load_s),
        generator=generator,
        load_average=load_average,
        warnings=tuple(_warnings(reports, generator, _machine_share(gateway, generator, machine, load_s))),
    )


def _lane_report(blocks: Sequence[BlockResult], load_s: float) -> LaneReport:
    timelines = [timeline for block in blocks for timeline in block.timelines]
    errors = Counter(timeline.error for timeline in timelines if timeline.error is not None)
    num_errors = sum(errors.values())
    return LaneReport(
        num_requests=len(timelines),
        num_errors=num_errors,
        errors=dict(errors.most_common(10)),
        answers_per_s=(len(timelines) - num_errors) / load_s,
        tokens_per_s=sum(len(timeline.token_times_s) for timeline in timelines) / load_s,
        num_new_connections=sum(not timeline.is_reused_connection for timeline in timelines),
        tiers=dict(Counter(timeline.tier for timeline in timelines if timeline.tier is not None)),
    )


def _measure_report(
    measure: Measure, lanes: dict[Lane, list[BlockResult]], seed: int
) -> MeasureReport | None:
    """None where either lane observed nothing: no streams in the mix, or nothing but errors."""
    observed = {
        lane: [measure.observe(block.timelines) for block in sorted(blocks, key=_pair_of)]
        for lane, blocks in lanes.items()
    }
    pooled = {lane: np.concatenate(blocks) for lane, blocks in observed.items()}
    if any(values.size == 0 for values in pooled.values()):
        return None
    added = added_quantiles(
        direct=observed[Lane.DIRECT],
        gateway=observed[Lane.GATEWAY],
        qs=tuple(QUANTILES.values()),
        seed=seed,
    )
    return MeasureReport(
        name=measure.name,
        title=measure.title,
        num_direct=pooled[Lane.DIRECT].size,
        num_gateway=pooled[Lane.GATEWAY].size,
        direct_s={name: quantile(pooled[Lane.DIRECT], q) for name, q in QUANTILES.items()},
        gateway_s={name: quantile(pooled[Lane.GATEWAY], q) for name, q in QUANTILES.items()},
        added_s=dict(zip(QUANTILES, added, strict=True)),
    )


def _pair_of(result: BlockResult) -> int:
    assert result.block.pair is not None, "the warm-up is not reported"
    return result.block.pair


def _gateway_cost(spent: Spent | None, num_requests: int, load_s: float) -> GatewayCost | None:
    if spent is None or not num_requests:
        return None
    return GatewayCost(
        cpu_s_per_request=spent.cpu_s / num_requests,
        cpu_share=spent.cpu_s / load_s,
        rss_before_bytes=spent.before.rss_bytes,
        rss_after_bytes=spent.after.rss_bytes,
    )


def _generator_report(result: LoadResult, upstream: Spent | None, *, loaded_s: float) -> GeneratorReport:
    lateness_s = result.dispatch_lateness_s or (0.0,)
    return GeneratorReport(
        lateness_p50_s=quantile(lateness_s, 0.5),
        lateness_p99_s=quantile(lateness_s, 0.99),
        lateness_max_s=max(lateness_s),
        cpu_share=result.generator_cpu_s / loaded_s,
        upstream_cpu_share=None if upstream is None else upstream.cpu_s / loaded_s,
    )


def _machine_share(
    gateway: Spent | None, generator: GeneratorReport, machine: Machine, load_s: float
) -> float:
    """Share of all cores that the run's own processes took while the gateway's lane was loaded."""
    cores = generator.cpu_share + (generator.upstream_cpu_share or 0.0)
    cores += 0.0 if gateway is None else gateway.cpu_s / load_s
    return cores / machine.num_cores


def _warnings(lanes: dict[str, LaneReport], generator: GeneratorReport, machine_share: float) -> list[str]:
    warnings = [
        f"{lane.num_errors} of {lane.num_requests} requests on the {name} lane failed"
        for name, lane in lanes.items()
        if lane.num_errors
    ]
    if generator.lateness_p99_s > LATENESS_LIMIT_S:
        late = (
            f"{generator.lateness_p99_s * 1e3:.1f} ms late at p99, taking {generator.cpu_share:.0%} of a core"
        )
        warnings.append(
            f"the load generator was {late}: lower --rate, or stop what else runs on this machine"
        )
    if generator.cpu_share > GENERATOR_CPU_LIMIT:
        warnings.append(f"the load generator is the limit: it took {generator.cpu_share:.0%} of a core")
    if machine_share > MACHINE_CPU_LIMIT:
        warnings.append(
            f"the machine is the limit: {machine_share:.0%} of its cores were taken; lower --rate"
        )
    return warnings
