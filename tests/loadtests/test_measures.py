"""What is read off timelines, worked by hand."""

from __future__ import annotations

import dataclasses

import pytest

from loadtests.measures import measures
from loadtests.timeline import Timeline

STREAM = Timeline(
    scheduled_s=10.0,
    is_streaming=True,
    sent_s=10.0,
    is_reused_connection=True,
    headers_s=10.0,
    token_times_s=(10.052, 10.061, 10.075),
    ended_s=10.076,
    status=200,
    error=None,
)
WHOLE = dataclasses.replace(STREAM, is_streaming=False, token_times_s=(), ended_s=10.2)
BY_NAME = {measure.name: measure for measure in measures(ttft_s=0.05, itl_s=0.01)}


@pytest.mark.parametrize(
    ("name", "values_s"),
    [
        ("whole_e2e", [0.2]),
        ("stream_ttft", [0.052]),
        ("stream_token_lateness", [0.002, 0.001, 0.005]),  # due at 50, 60, 70 ms
        ("stream_itl", [0.009, 0.014]),
        ("stream_e2e", [0.076]),
    ],
)
def test_each_measure_reads_its_own_kind(name: str, values_s: list[float]) -> None:
    """Streams never count as whole answers nor the other way round, and failures count as neither."""
    failed = [dataclasses.replace(STREAM, error="lost"), dataclasses.replace(WHOLE, error="lost")]
    assert list(BY_NAME[name].observe([STREAM, WHOLE, *failed])) == pytest.approx(values_s)


def test_nothing_observed_is_empty() -> None:
    """No answers, or a stream without tokens."""
    assert BY_NAME["stream_ttft"].observe([]).size == 0
    assert BY_NAME["stream_ttft"].observe([dataclasses.replace(STREAM, token_times_s=())]).size == 0
