"""The llama.cpp engine without llama.cpp: its settings, its command lines, and how it reads what a server says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from serving.engines import llamacpp_server
from serving.engines.base import Endpoint, EngineError
from serving.engines.llamacpp import EMBEDDED_KEY, LlamaCppEngine, LlamaCppSettings
from serving.engines.llamacpp_tools import PROBE_NAME
from serving.engines.machine import Machine

LAPTOP = Machine(num_cores=4, memory_bytes=8 << 30)
MakeGguf = Callable[..., Path]


def engine(**settings: Any) -> LlamaCppEngine:
    return LlamaCppEngine(LlamaCppSettings.model_validate(settings), num_sharing=2, machine=LAPTOP)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_child_understands_its_command_line(make_gguf: MakeGguf, tmp_path: Path) -> None:
    """Every argument of the embedded engine is one that its server takes, and means what was chosen."""
    template = tmp_path / "t.jinja"
    template.touch()
    model = make_gguf("name,with comma.gguf")
    launch = engine(
        slots=3, sampling={"top_k": 7}, chat_template=template, embeddings=True, pooling="last"
    ).launch(tier="fast", model=model, port=1234)
    assert launch.argv[1:4] == ("-P", "-m", "serving.engines.llamacpp_server")
    args = llamacpp_server._parser().parse_args(launch.argv[4:])
    assert vars(args) == {
        "model": model,
        "alias": "name,with comma",
        "port": 1234,
        "threads": 4,
        "threads_alone": 1,
        "slots": 3,
        "context_tokens": 4096,
        "prompt_cache_mib": int((8 << 30) * 0.9) // 2 // 8 >> 20,
        "temperature": 0.8,
        "top_p": 0.95,
        "top_k": 7,
        "min_p": 0.0,
        "chat_template": template,
        "embeddings": True,
        "pooling": "last",
        "draft": None,
        "draft_max_tokens": None,
        "draft_match_tokens": None,
        "draft_model": None,
        "draft_min_probability": None,
        "batch_tokens": None,
        "ubatch_tokens": None,
        "flash_attention": None,
        "kv_cache_type": None,
        "no_repack": False,
        "load": None,
    }


def test_command_line_of_a_binary(make_gguf: MakeGguf, binary: Path, tmp_path: Path) -> None:
    """`llama-server` gets the same by its own flags; the operator's come last, so that they win."""
    template = tmp_path / "t.jinja"
    template.touch()
    model = make_gguf("a,b.gguf")
    argv = (
        engine(
            binary=binary,
            binary_args=("--gpu-layers", "20"),
            threads=2,
            slots=3,
            context_tokens=512,
            prompt_cache_mib=10,
            chat_template=template,
            embeddings=True,
            pooling="mean",
        )
        .launch(tier="fast", model=model, port=1234)
        .argv
    )
    assert " ".join(argv) == (
        f"{binary} --model {model} --alias a_b --host 127.0.0.1 --port 1234 --jinja --metrics --no-webui --fit off "
        "--threads 2 --threads-batch 2 --parallel 3 --kv-unified --ctx-size 1536 --kv-unified-per-slot 512 "
        f"--cache-ram 10 --temp 0.8 --top-p 0.95 --top-k 40 --min-p 0.0 "
        f"--chat-template-file {template} --embeddings --batch-size 512 --ubatch-size 512 "
        "--pooling mean --gpu-layers 20"
    )


@pytest.mark.parametrize("is_binary", [False, True])
def test_the_key_is_secret(make_gguf: MakeGguf, binary: Path, is_binary: bool) -> None:
    """A key is drawn for each start, and stands in the environment, where other users cannot see it, not in argv."""
    made = engine(binary=binary) if is_binary else engine()
    first, second = (made.launch(tier="fast", model=make_gguf(), port=1) for _ in range(2))
    variable = "LLAMA_API_KEY" if is_binary else EMBEDDED_KEY
    assert first.api_key
    assert first.env[variable] == first.api_key
    assert first.api_key not in " ".join(first.argv)
    assert first.api_key != second.api_key
    assert EMBEDDED_KEY == llamacpp_server.KEY_VARIABLE


def test_threads_wait_without_spinning(make_gguf: MakeGguf) -> None:
    """Two engines on the same cores would otherwise keep them from each other."""
    assert engine().launch(tier="fast", model=make_gguf(), port=1).env["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_second_start_is_sized_like_the_first(make_gguf: MakeGguf) -> None:
    """What the first process holds is not taken from the second."""
    made = engine()
    first, second = (made.launch(tier="fast", model=make_gguf(), port=1) for _ in range(2))
    assert first.argv == second.argv


def test_errors_name_the_setting(make_gguf: MakeGguf, tmp_path: Path) -> None:
    """Each thing that is not there is told with the setting to correct."""
    with pytest.raises(EngineError, match=r"tiers\.fast\.model"):
        engine().launch(tier="fast", model=None, port=1)
    with pytest.raises(EngineError, match=r"absent\.gguf .*No such file"):
        engine().launch(tier="fast", model=tmp_path / "absent.gguf", port=1)
    with pytest.raises(EngineError, match=r"no file .*llama: correct `tiers\.fast\.engine\.binary`"):
        engine(binary=tmp_path / "llama").launch(tier="fast", model=make_gguf(), port=1)
    with pytest.raises(EngineError, match=r"correct `tiers\.fast\.engine\.chat_template`"):
        engine(chat_template=tmp_path / "t").launch(tier="fast", model=make_gguf(), port=1)
    plain = tmp_path / "llama-server"
    plain.touch(0o644)
    with pytest.raises(EngineError, match=r"not executable: chmod \+x"):
        engine(binary=plain).launch(tier="fast", model=make_gguf(), port=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": 0}, "greater than 0"),
        ({"slots": 257}, "less than or equal to 256"),
        ({"context_tokens": 255}, "greater than or equal to 256"),
        ({"binary_args": ["-x"]}, "name it with `binary`"),
        ({"pooling": "mean"}, "set `embeddings` as well"),
        ({"sampling": {"top_p": 0}}, "greater than 0"),
        ({"treads": 2}, "Extra inputs"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    """Values that cannot be are refused, and so are names that nobody knows."""
    with pytest.raises(ValidationError, match=message):
        LlamaCppSettings.model_validate(settings)


class FakeServer:
    """Answers as llama-server does, with a template of one's own."""

    def __init__(self) -> None:
        self.props: Any = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 3}
        self.opening = f"{PROBE_NAME} hi\nassistant\n"
        self.call = f"<tool_call>\n{{'name': '{PROBE_NAME}'}}"
        self.status_of_forced_call = 200
        self.health = 200
        self.embedding: dict[str, Any] = {"data": []}
        self.keys: set[str | None] = set()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/health":
            return web.json_response({}, status=self.health)
        self.keys.add(request.headers.get("authorization"))
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "fast"}]})
        if request.path == "/props":
            return web.json_response(self.props)
        body = await request.json()
        if request.path == "/v1/embeddings":
            return web.json_response(self.embedding, status=400 if "error" in self.embedding else 200)
        if request.path == "/apply-template":
            has_calls = any("tool_calls" in message for message in body["messages"])
            return web.json_response({"prompt": self.opening + (self.call if has_calls else "")})
        assert body["messages"][-1] == {"role": "assistant", "content": "<tool_call>\n"}
        return web.json_response({}, status=self.status_of_forced_call)


@pytest.fixture
async def server() -> AsyncIterator[tuple[FakeServer, Endpoint, aiohttp.ClientSession]]:
    fake = FakeServer()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession() as session:
        yield fake, Endpoint(url=site.name.rstrip("/"), api_key="k"), session
    await runner.cleanup()


Server = tuple[FakeServer, Endpoint, aiohttp.ClientSession]


async def test_what_a_server_offers(server: Server) -> None:
    """Name, context and slots are the server's; the key goes with every question but the one about health."""
    fake, endpoint, session = server
    offered = await engine().capabilities(session, endpoint)
    assert (offered.model_id, offered.context_tokens, offered.num_slots) == ("fast", 4096, 3)
    assert offered.tools
    assert offered.forced_call_prefix == "<tool_call>\n"
    assert not offered.keeps_connections
    assert {"echo", "suffix", "functions", "grammar", "reasoning_effort"} <= offered.unsupported_parameters
    assert "tool_choice" not in offered.unsupported_parameters
    assert fake.keys == {"Bearer k"}


async def test_a_draft_costs_log_probabilities(server: Server) -> None:
    """llama.cpp has none of tokens that were proposed, and would say 0."""
    _, endpoint, session = server
    assert (await engine().capabilities(session, endpoint)).logprobs
    assert not (await engine(draft={"type": "ngram"}).capabilities(session, endpoint)).logprobs


async def test_a_template_without_tools(server: Server) -> None:
    """Where the prompt shows nothing of the tools, the model would never know of them."""
    fake, endpoint, session = server
    fake.opening = "hi\nassistant\n"
    offered = await engine().capabilities(session, endpoint)
    assert not offered.tools
    assert offered.forced_call_prefix is None


async def test_a_prefix_that_the_engine_does_not_take(server: Server) -> None:
    """Tools are offered, but none can be required."""
    fake, endpoint, session = server
    fake.status_of_forced_call = 400
    offered = await engine().capabilities(session, endpoint)
    assert offered.tools
    assert offered.forced_call_prefix is None
    assert "tool_choice" in offered.unsupported_parameters


async def test_images_and_effort(server: Server) -> None:
    """A model with eyes takes images; one whose template knows efforts is told of them."""
    fake, endpoint, session = server
    fake.props |= {"modalities": {"vision": True}, "chat_template_caps": {"supports_reasoning_effort": True}}
    offered = await engine().capabilities(session, endpoint)
    assert offered.modalities == {"text", "image"}
    assert "reasoning_effort" not in offered.unsupported_parameters


async def test_an_embedding_tier_embeds_only(server: Server) -> None:
    """llama.cpp serves either answers or vectors."""
    _, endpoint, session = server
    offered = await engine(embeddings=True).capabilities(session, endpoint)
    assert offered.endpoints == {"embeddings"}
    assert not offered.tools


async def test_a_model_that_does_not_say_how_it_pools(server: Server) -> None:
    """It would start, and then refuse every request: the start tells it."""
    fake, endpoint, session = server
    fake.embedding = {"error": {"code": 400, "message": "Pooling type 'none' is not OAI compatible."}}
    with pytest.raises(EngineError, match=r"set `engine\.pooling`"):
        await engine(embeddings=True).capabilities(session, endpoint)


@pytest.mark.parametrize("props", [{}, [], {"default_generation_settings": None}, {"total_slots": "x"}])
async def test_another_server_on_that_port(server: Server, props: Any) -> None:
    """Answers of another kind are an error that says so."""
    fake, endpoint, session = server
    fake.props = props
    with pytest.raises(EngineError, match=r"did not say what it offers .*is it llama-server"):
        await engine().capabilities(session, endpoint)


@pytest.mark.parametrize(("status", "is_ready"), [(200, True), (503, False), (404, False)])
async def test_readiness(server: Server, status: int, is_ready: bool) -> None:
    """While the model is loading the server answers 503."""
    fake, endpoint, session = server
    fake.health = status
    assert await engine().is_ready(session, endpoint) is is_ready


async def test_a_server_that_is_down(server: Server) -> None:
    """Nobody listening is not ready, and no exception."""
    _, _, session = server
    assert not await engine().is_ready(session, Endpoint(url="http://127.0.0.1:1"))
