"""Gauges that must be zero when a server rests, read off its metrics page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from loadtests.fetch import FetchError, fetch

GATEWAY_GAUGES = ("tierwise_requests_in_flight", "tierwise_replica_in_flight", "tierwise_queue_length")
"""What a gateway holds for requests under way."""
ENGINE_GAUGES = (
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "mock_requests_in_flight",
)
"""What engines do; a page has those of one engine."""

POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """A page and what must come to zero on it."""

    url: str
    gauges: tuple[str, ...]
    needs_all: bool
    """Whether a gauge that is missing is a fault; else one of them is enough."""
    api_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Whether everything came to rest."""

    waited_s: float
    leftovers: dict[str, float]
    """Series that were not zero at the end, by page and name; empty when all is well."""


async def settle(pages: Sequence[MetricsPage], *, timeout_s: float) -> Settlement:
    """Read the pages until every gauge is zero, or the time is over.

    Raises:
        FetchError: a page cannot be read, or lacks the gauges.
    """
    began_s = time.monotonic()
    while True:
        leftovers: dict[str, float] = {}
        for page in pages:
            leftovers |= {f"{page.url} {name}": value for name, value in (await _leftovers(page)).items()}
        waited_s = time.monotonic() - began_s
        if not leftovers or waited_s > timeout_s:
            return Settlement(waited_s=waited_s, leftovers=leftovers)
        await asyncio.sleep(POLL_S)


async def _leftovers(page: MetricsPage) -> dict[str, float]:
    headers = {} if page.api_key is None else {"authorization": f"Bearer {page.api_key}"}
    response = await fetch(page.url, timeout_s=10.0, headers=headers)
    if response.status != 200:
        raise FetchError(f"{page.url} answers with status {response.status}")
    return nonzero_gauges(response.body.decode(), page)


def nonzero_gauges(exposition: str, page: MetricsPage) -> dict[str, float]:
    """Each series of the page's gauges that is not zero.

    Raises:
        FetchError: a gauge is missing, so that nobody can say whether it is zero.
    """
    families = {
        family.name: family.samples
        for family in text_string_to_metric_families(exposition)
        if family.name in page.gauges
    }
    missing = [name for name in page.gauges if name not in families]
    if len(missing) == len(page.gauges) or (missing and page.needs_all):
        raise FetchError(f"{page.url} has no {', '.join(missing)}")
    return {
        sample.name + "".join(f" {label}={value}" for label, value in sample.labels.items()): sample.value
        for samples in families.values()
        for sample in samples
        if sample.value != 0
    }
