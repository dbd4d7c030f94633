"""Hold-back on real engines: what they say of their tokens settles an answer, and the client sees none of it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from router.escalation import EscalationModel, PairModel, Revision
from tests.integration.conftest import started_gateway

pytestmark = pytest.mark.engines

CERTAIN, HOPELESS = 20.0, -20.0
TASK = "Repeat this exactly, and say nothing else: lemon, lantern, harbour, velvet"
"""One of the kind that the released router knows, so that it does not go up for that."""
BODY = {"max_tokens": 24, "temperature": 0, "messages": [{"role": "user", "content": TASK}]}
PRICE = 2000.0
"""λ at which the fast tier is worth it, and a hopeless answer of it is not."""


def model(intercept: float) -> bytes:
    """One that takes every beginning of the fast tier for certain, or for hopeless."""
    pair = PairModel(
        first="fast",
        next="full",
        statistic="mean_logprob",
        num_tokens=4,
        lowest=-1000.0,
        revise_first=Revision(intercept=intercept, slope=0.0, weight=0.02),
        revise_next=Revision(intercept=3.0, slope=0.0, weight=0.0),
    )
    return json.dumps(EscalationModel((pair,)).as_members()).encode()


@pytest.mark.parametrize(("intercept", "arm"), [(CERTAIN, "fast"), (HOPELESS, "full")])
def test_real_tokens_settle_an_answer(intercept: float, arm: str, tmp_path: Path) -> None:
    """Streamed, whole and by the Responses API: one answer of one tier, without the log-probabilities it took."""
    path = tmp_path / "escalation.json"
    path.write_bytes(model(intercept))
    settings = [
        "router.escalation.enabled=true",
        f"router.escalation.model={path}",
        "router.escalation.highest_probability=1",
        "router.escalation.max_ms=20000",
        f"budget.price_of_compute={PRICE}",
    ]
    arguments = [word for setting in settings for word in ("--set", setting)]
    with started_gateway(*arguments) as gateway, httpx.Client(base_url=gateway.url, timeout=60) as http:
        for path_of, body in (
            ("/v1/chat/completions", BODY),
            ("/v1/chat/completions", {**BODY, "stream": True, "stream_options": {"include_usage": True}}),
            ("/v1/responses", {"input": TASK, "max_output_tokens": 24}),
            ("/v1/responses", {"input": TASK, "max_output_tokens": 24, "stream": True}),
        ):
            answer = http.post(path_of, json={"model": "auto", **body})
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-tierwise-arm"] == arm, answer.headers
            assert answer.headers["x-tierwise-escalated"] == ("true" if arm == "full" else "false")
            assert '"top_logprobs":[{' not in answer.text.replace(" ", "")
            assert answer.text.count('"usage":{') == 1
        own = http.post("/v1/chat/completions", json={"model": "auto", **BODY, "logprobs": True}).json()
        assert own["choices"][0]["logprobs"]["content"]
        metrics = http.get("/metrics").text
    end = "escalated" if arm == "full" else "flushed"
    assert f'tierwise_holds_total{{end="{end}",tier="fast"}} 5.0' in metrics
