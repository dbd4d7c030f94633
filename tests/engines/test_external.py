"""Servers that run already: what is declared, what their list of models adds, and what is wrong with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from serving.engines.base import Endpoint, EngineError
from serving.engines.external import ASSUMED_CONTEXT_TOKENS, ExternalEngine, ExternalSettings
from serving.engines.llamacpp_tools import PROBE_NAME


class FakeServer:
    """A list of models, under a status of one's choice; templates as llama.cpp renders them."""

    def __init__(self) -> None:
        self.listing: Any = {"data": [{"id": "only"}]}
        self.status = 200
        self.keys: list[str | None] = []

    async def models(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("authorization"))
        return web.json_response(self.listing, status=self.status)

    async def template(self, request: web.Request) -> web.Response:
        has_calls = any("tool_calls" in message for message in (await request.json())["messages"])
        return web.json_response({"prompt": f"{PROBE_NAME}\n" + (f"<call>{PROBE_NAME}" if has_calls else "")})

    async def chat(self, request: web.Request) -> web.Response:
        return web.json_response({})


Server = tuple[FakeServer, str, aiohttp.ClientSession]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    fake = FakeServer()
    app = web.Application()
    app.router.add_get("/v1/models", fake.models)
    app.router.add_post("/apply-template", fake.template)
    app.router.add_post("/v1/chat/completions", fake.chat)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession() as session:
        yield fake, site.name.rstrip("/"), session
    await runner.cleanup()


def engine(url: str = "http://127.0.0.1:1", key: str | None = None, **settings: Any) -> ExternalEngine:
    return ExternalEngine(ExternalSettings(urls=(url,), **settings), key)


@pytest.mark.parametrize(
    "url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1//"]
)
def test_urls_are_taken_in_every_usual_form(url: str) -> None:
    """With or without `/v1`, with or without a slash."""
    assert ExternalSettings(urls=(url,)).urls == ("http://h:1",)


def test_a_path_before_v1_stays() -> None:
    """Some providers serve the API under a path."""
    assert ExternalSettings(urls=("https://h/api/v1",)).urls == ("https://h/api",)


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ([], "at least 1"),
        (["h:1"], "not a URL; write it like"),
        (["ftp://h"], "not a URL"),
        (["http://"], "not a URL"),
        (["http://user:pw@h"], "must hold no password"),
        (["http://h", "http://h/v1"], "stands there twice"),
    ],
)
def test_urls_that_cannot_be(urls: list[str], message: str) -> None:
    """What is no address of a server is refused with the form to write."""
    with pytest.raises(ValidationError, match=message):
        ExternalSettings.model_validate({"urls": urls})


def test_nothing_is_started() -> None:
    """Each URL is a replica; there is no process."""
    made = ExternalEngine(ExternalSettings(urls=("http://a", "http://b")), "key")
    assert made.launch(tier="t", model=None, port=1) is None
    assert made.endpoints() == (
        Endpoint(url="http://a", api_key="key"),
        Endpoint(url="http://b", api_key="key"),
    )


@pytest.mark.parametrize(
    ("status", "is_ready"), [(200, True), (401, True), (404, True), (500, False), (503, False)]
)
async def test_any_answer_is_life(server: Server, status: int, is_ready: bool) -> None:
    """No health page is asked for: a server that answers below 500 is up."""
    fake, url, session = server
    fake.status = status
    assert await engine(url).is_ready(session, Endpoint(url=url)) is is_ready


async def test_a_server_that_is_down(server: Server) -> None:
    """Nobody listening is not ready, and no exception."""
    _, _, session = server
    assert not await engine().is_ready(session, Endpoint(url="http://127.0.0.1:1"))


async def test_the_only_model_is_taken(server: Server) -> None:
    """Where one model is listed it need not be named; the key goes along."""
    fake, url, session = server
    offered = await engine(url, "secret").capabilities(session, Endpoint(url=url, api_key="secret"))
    assert offered.model_id == "only"
    assert offered.endpoints == {"chat", "completions"}
    assert fake.keys == ["Bearer secret"]


async def test_several_models_are_listed_in_the_error(server: Server) -> None:
    """The operator sees what to choose from."""
    fake, url, session = server
    fake.listing = {"data": [{"id": "a"}, {"id": "b"}]}
    with pytest.raises(EngineError, match=r"has the models a, b: name one with `engine\.model`"):
        await engine(url).capabilities(session, Endpoint(url=url))
    assert (await engine(url, model="b").capabilities(session, Endpoint(url=url))).model_id == "b"


@pytest.mark.parametrize(
    ("listing", "status", "message"),
    [
        ({"data": []}, 200, "has no model"),
        ({"detail": "no"}, 404, "does not list its models"),
        ({}, 200, "does not list its models"),
        ([], 200, "does not list its models"),
    ],
)
async def test_no_list(server: Server, listing: Any, status: int, message: str) -> None:
    """A named model needs no list; without a name there must be one."""
    fake, url, session = server
    fake.listing, fake.status = listing, status
    with pytest.raises(EngineError, match=message):
        await engine(url).capabilities(session, Endpoint(url=url))
    assert (await engine(url, model="gpt").capabilities(session, Endpoint(url=url))).model_id == "gpt"


@pytest.mark.parametrize(
    ("key_variable", "remedy"), [("MY_KEY", r"correct \$MY_KEY"), (None, r"`engine\.api_key_env`")]
)
async def test_a_key_that_is_refused(server: Server, key_variable: str | None, remedy: str) -> None:
    """401 is told at the start, with the variable to look at, and not at the first request."""
    fake, url, session = server
    fake.status = 401
    with pytest.raises(EngineError, match=rf"refuses the API key: .*{remedy}"):
        await engine(url, model="gpt", api_key_env=key_variable).capabilities(session, Endpoint(url=url))


@pytest.mark.parametrize(
    ("entry", "declared", "expected"),
    [
        ({"max_model_len": 4096}, None, 4096),
        ({"context_length": 8192}, None, 8192),
        ({"meta": {"n_ctx": 2048}}, None, 2048),
        ({"max_model_len": 4096}, 1000, 1000),
        ({"max_model_len": "many", "meta": None}, None, ASSUMED_CONTEXT_TOKENS),
        ({}, None, ASSUMED_CONTEXT_TOKENS),
    ],
)
async def test_context(server: Server, entry: dict[str, Any], declared: int | None, expected: int) -> None:
    """What the operator declares, else what the server's list says, else a guess that refuses nothing."""
    fake, url, session = server
    fake.listing = {"data": [{"id": "only", **entry}]}
    offered = await engine(url, context_tokens=declared).capabilities(session, Endpoint(url=url))
    assert offered.context_tokens == expected


async def test_what_is_declared_is_offered(server: Server) -> None:
    """An operator's word stands: no API tells these."""
    _, url, session = server
    declared = {
        "responses": "native",
        "num_slots": 7,
        "modalities": {"text", "image"},
        "tools": False,
        "structured_output": False,
        "logprobs": False,
        "unsupported_parameters": {"seed"},
    }
    offered = await engine(url, **declared).capabilities(session, Endpoint(url=url))
    assert offered.endpoints == {"chat", "completions", "responses"}
    assert offered.num_slots == 7
    assert offered.modalities == {"text", "image"}
    assert [offered.tools, offered.structured_output, offered.logprobs] == [False] * 3
    assert offered.unsupported_parameters == {"seed"}
    assert offered.keeps_connections


async def test_an_embedding_tier_embeds_only(server: Server) -> None:
    """It takes no chat, native Responses API or not."""
    _, url, session = server
    offered = await engine(url, embeddings=True, responses="native").capabilities(session, Endpoint(url=url))
    assert offered.endpoints == {"embeddings"}


async def test_a_llamacpp_that_runs_already(server: Server) -> None:
    """It says so in its list; then what it drops is known, and how a tool call is forced is read off its template."""
    fake, url, session = server
    fake.listing = {"data": [{"id": "only", "owned_by": "llamacpp"}]}
    offered = await engine(url, unsupported_parameters={"seed"}).capabilities(session, Endpoint(url=url))
    assert offered.forced_call_prefix == "<call>"
    assert {"echo", "functions", "seed"} <= offered.unsupported_parameters
    assert offered.counts_one_choice
    assert not offered.keeps_connections
