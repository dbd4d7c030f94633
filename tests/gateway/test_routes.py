"""The URLs around the protocols: models, health, metrics, and every wrong turn in OpenAI's shape."""

from __future__ import annotations

import pytest

from tests.fakes import MockUpstream
from tests.live_gateway import LiveGateway


async def test_models_are_what_model_may_say() -> None:
    """`auto`, arms, tiers and concrete ids, each once, and each to be asked for by itself."""
    arms = [{"name": "quick", "tier": "fast"}, {"name": "full", "tier": "full"}]
    async with (
        MockUpstream() as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}, settings={"arms": arms}) as gateway,
    ):
        listed = (await gateway.http.get("/v1/models")).json()
        names = [model["id"] for model in listed["data"]]
        assert names == ["auto", "quick", "full", "fast", "mock-model"]
        for name in names:
            assert (await gateway.http.get(f"/v1/models/{name}")).json()["id"] == name
            assert (await gateway.chat({"model": name})).status_code == 200
        assert listed["object"] == "list"
        assert {model["object"] for model in listed["data"]} == {"model"}
        missing = await gateway.http.get(f"/v1/models/{'x' * 2000}")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
        assert len(missing.content) < 500


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/responses", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/chat/completion", 404, "unknown_url"),
        ("POST", "/v1/chat/completions/", 404, "unknown_url"),
        ("POST", "/chat/completions", 404, "unknown_url"),
        ("GET", "/", 404, "unknown_url"),
        ("GET", "/docs", 404, "unknown_url"),
        ("GET", "/v1/" + "x" * 5000, 404, "unknown_url"),
    ],
)
async def test_a_wrong_url_is_an_openai_error(method: str, path: str, status: int, code: str) -> None:
    """Nothing is redirected, nothing is answered in plain text, and every answer has an id."""
    async with LiveGateway({"fast": []}) as gateway:
        answer = await gateway.http.request(method, path, json={}, headers={"x-request-id": "mine"})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.headers["x-request-id"] == "mine"
    assert ("allow" in answer.headers) is (status == 405)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/models", "/nowhere"])
async def test_every_answer_has_a_request_id(path: str) -> None:
    """The client's id where it can be logged safely, else one of ours."""
    async with LiveGateway({"fast": []}) as gateway:
        assert (await gateway.http.get(path, headers={"x-request-id": "a.b-c_1"})).headers[
            "x-request-id"
        ] == "a.b-c_1"
        for unsafe in ("", "a b", "x" * 129, '"}'):
            told = (await gateway.http.get(path, headers={"x-request-id": unsafe})).headers.get_list(
                "x-request-id"
            )
            assert len(told) == 1
            assert told[0].startswith("req_")


async def test_readiness_follows_the_fleet() -> None:
    """Not ready before every tier has been up, nor while none can answer, nor while draining; alive all the time."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [], "full": [upstream]}) as gateway:

        async def readiness() -> tuple[int, str]:
            answer = await gateway.http.get("/readyz")
            assert (await gateway.http.head("/readyz")).status_code == answer.status_code
            assert (await gateway.http.get("/healthz")).status_code == 200
            return answer.status_code, answer.json()["status"]

        assert await readiness() == (503, "not ready")
        gateway.add_replica("fast", upstream.url)
        assert await readiness() == (200, "ready")
        gateway.fleet.replica_down("fast", upstream.url)
        assert await readiness() == (200, "ready")
        gateway.fleet.replica_down("full", upstream.url)
        assert await readiness() == (503, "not ready")
        gateway.add_replica("full", upstream.url)
        gateway.is_draining = True
        assert await readiness() == (503, "draining")
        assert (await gateway.chat({"model": "full"})).status_code == 200, "draining still serves"


async def test_metrics_hold_no_text_of_a_request() -> None:
    """Whatever clients write as a model, a header or a path, the number of series stays the same."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        await gateway.chat({"model": "nonsense-0"})
        before = (await gateway.http.get("/metrics")).text
        for i in range(20):
            await gateway.chat({"model": f"nonsense-{i}"}, headers={"x-tierwise-session": f"nonsense-{i}"})
            await gateway.http.get(f"/nonsense-{i}")
        after = (await gateway.http.get("/metrics")).text
    assert len(after.splitlines()) == len(before.splitlines())
    assert "nonsense" not in after


async def test_a_bug_in_an_operation_is_a_500_in_shape(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Our own mistake behind any URL is told as OpenAI's clients expect, without its text, and logged."""
    async with LiveGateway({"fast": []}) as gateway:

        def broken() -> bytes:
            raise ValueError("internals")

        monkeypatch.setattr(gateway.metrics, "render", broken)
        answer = await gateway.http.get("/metrics")
        monkeypatch.undo()
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert answer.headers["x-request-id"]
    assert "internals" not in answer.text
    assert "internals" in caplog.text


async def test_a_tier_that_is_not_up_is_503() -> None:
    """A request for a tier that somebody else runs and that is down fails at once: nobody here starts it again."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [], "full": [upstream]}) as gateway:
        answer = await gateway.chat({"model": "fast"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "tier_unavailable")
        assert "retry-after" not in answer.headers
        other = await gateway.chat({"model": "auto"})
        assert (other.status_code, other.headers["x-tierwise-reason"]) == (200, "only_available")
