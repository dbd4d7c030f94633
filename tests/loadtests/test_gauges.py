"""Which gauges are not zero, and what a page must have for anyone to say so."""

from __future__ import annotations

import pytest

from loadtests.fetch import FetchError
from loadtests.gauges import ENGINE_GAUGES, GATEWAY_GAUGES, MetricsPage, nonzero_gauges, settle
from tests.fakes import MockUpstream

GATEWAY = MetricsPage(url="http://gateway/metrics", gauges=GATEWAY_GAUGES, needs_all=True)
ENGINE = MetricsPage(url="http://engine/metrics", gauges=ENGINE_GAUGES, needs_all=False)

RESTING = """\
# TYPE tierwise_requests_in_flight gauge
tierwise_requests_in_flight{endpoint="chat"} 0.0
# TYPE tierwise_replica_in_flight gauge
tierwise_replica_in_flight{tier="fast"} 0.0
# TYPE tierwise_queue_length gauge
tierwise_queue_length{tier="fast"} 0.0
# TYPE tierwise_requests_total counter
tierwise_requests_total{endpoint="chat"} 12.0
"""


def test_a_gateway_at_rest_has_nothing_left() -> None:
    """Counters may be what they like."""
    assert nonzero_gauges(RESTING, GATEWAY) == {}


@pytest.mark.parametrize("value", ["1.0", "-1.0"])
def test_what_is_not_zero_is_named(value: str) -> None:
    """Below zero is as wrong as above."""
    text = RESTING.replace('replica_in_flight{tier="fast"} 0.0', f'replica_in_flight{{tier="fast"}} {value}')
    assert nonzero_gauges(text, GATEWAY) == {"tierwise_replica_in_flight tier=fast": float(value)}


def test_a_gateway_without_a_gauge_is_no_gateway_at_rest() -> None:
    """A gauge that was renamed must not pass for zero."""
    with pytest.raises(FetchError, match="has no tierwise_queue_length"):
        nonzero_gauges(RESTING.replace("queue_length", "waiting"), GATEWAY)


@pytest.mark.parametrize("name", ENGINE_GAUGES)
def test_an_engine_has_the_gauges_of_its_kind(name: str) -> None:
    """One of them is enough, none is a fault."""
    assert nonzero_gauges(f"# TYPE {name} gauge\n{name} 2\n", ENGINE) == {name: 2.0}
    with pytest.raises(FetchError, match="has no"):
        nonzero_gauges("# TYPE go_goroutines gauge\ngo_goroutines 2\n", ENGINE)


async def test_a_page_that_cannot_be_read_is_an_error() -> None:
    """404 here; the page is named."""
    async with MockUpstream() as upstream:
        page = MetricsPage(url=f"{upstream.url}/metrics", gauges=GATEWAY_GAUGES, needs_all=True)
        with pytest.raises(FetchError, match=r"/metrics answers with status 404"):
            await settle([page], timeout_s=1)
