"""OpenAI's parameters on the real engine, one by one: which work, which are ignored, which are refused.

A test that fails after an upgrade tells that `llamacpp_dialect` must be told.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from serving.engines.llamacpp import SamplingSettings
from serving.engines.llamacpp_dialect import IGNORED
from tests.engines.real_engine import RunningEngine, running

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

STORY = [{"role": "user", "content": "Tell me a story about a cat."}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
VALUES: dict[str, Any] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "background": True,
    "best_of": 2,
    "conversation": "conv_1",
    "echo": True,
    "function_call": {"name": "f"},
    "functions": [{"name": "f", "parameters": {"type": "object", "properties": {}}}],
    "metadata": {"a": "b"},
    "moderation": {},
    "modalities": ["text", "audio"],
    "prediction": {"type": "content", "content": "Once upon a time"},
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "service_tier": "flex",
    "store": True,
    "suffix": " the end",
    "user": "u",
    "verbosity": "low",
    "web_search_options": {},
}


def text(engine: RunningEngine, **body: Any) -> str:
    return str(engine.message(messages=STORY, **body)["content"])


@pytest.mark.parametrize("parameter", sorted(IGNORED))
def test_ignored(engine: RunningEngine, parameter: str) -> None:
    """The answer is the same with and without it, and nothing is said: hence the gateway must."""
    if parameter in {"echo", "suffix", "best_of"}:
        body = {
            "prompt": "The capital of France is",
            "max_tokens": 8,
            "temperature": 0,
            "cache_prompt": False,
        }
        plain, asked = (
            engine.post("/v1/completions", json=body | more).json()["choices"][0]["text"]
            for more in ({}, {parameter: VALUES[parameter]})
        )
    else:
        plain, asked = text(engine), text(engine, **{parameter: VALUES[parameter]})
    assert asked == plain


@pytest.mark.parametrize(
    "parameter",
    [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repeat_penalty": 1.5}],
    ids=lambda parameter: next(iter(parameter)),
)
def test_penalties_change_the_answer(engine: RunningEngine, parameter: dict[str, float]) -> None:
    """They are applied at temperature 0 too."""
    assert text(engine, max_tokens=60, **parameter) != text(engine, max_tokens=60)


def test_seed(engine: RunningEngine) -> None:
    """The same seed gives the same answer, another one another."""
    drawn = [text(engine, temperature=1.0, seed=seed, max_tokens=40) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_logit_bias(engine: RunningEngine) -> None:
    """A banned token is not drawn."""
    first = engine.chat(messages=STORY, logprobs=True, top_logprobs=1, max_tokens=1)
    token = first["choices"][0]["logprobs"]["content"][0]
    assert not text(engine, logit_bias={str(token["id"]): -100}).startswith(token["token"])


@pytest.mark.parametrize("as_list", [True, False])
def test_stop(engine: RunningEngine, as_list: bool) -> None:
    """The answer ends before the stop text, and says that it stopped."""
    whole = text(engine, max_tokens=30)
    stop = whole.split()[3]
    choice = engine.chat(messages=STORY, max_tokens=30, stop=[stop] if as_list else stop)["choices"][0]
    assert choice["message"]["content"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_number_of_choices(engine: RunningEngine) -> None:
    """Up to the number of slots; more are refused by name. Their usage is one choice's: `counts_one_choice`."""
    answer = engine.chat(messages=STORY, n=3, temperature=1.0, max_tokens=24, ignore_eos=True)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in answer["choices"]}) > 1
    assert answer["usage"]["completion_tokens"] == 24
    refused = engine.chat(is_ok=False, messages=STORY, n=5)["error"]
    assert (refused["code"], refused["type"]) == (400, "invalid_request_error")
    assert "'n'" in refused["message"]


@pytest.mark.parametrize("num_top", [1, 5, 20])
def test_logprobs(engine: RunningEngine, num_top: int) -> None:
    """Log-probabilities of the drawn token and of the most likely ones, of the distribution before sampling."""
    choice = engine.chat(messages=STORY, logprobs=True, top_logprobs=num_top, max_tokens=3)["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
    for entry in content:
        assert len(entry["top_logprobs"]) == num_top
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"]  # greedy
        assert bytes(entry["bytes"]).decode() == entry["token"]
        assert sum(math.exp(top["logprob"]) for top in entry["top_logprobs"]) <= 1.0001


def test_logprobs_without_alternatives(engine: RunningEngine) -> None:
    """0 gives none at all and no number gives twenty: the gateway asks for 1 and cuts."""
    none = engine.chat(messages=STORY, logprobs=True, top_logprobs=0, max_tokens=1)["choices"][0]
    assert none.get("logprobs") is None
    absent = engine.chat(messages=STORY, logprobs=True, max_tokens=1)["choices"][0]
    assert len(absent["logprobs"]["content"][0]["top_logprobs"]) == 20


def test_logprobs_in_a_stream(engine: RunningEngine) -> None:
    """Each chunk has those of its tokens."""
    body = {
        "messages": STORY,
        "max_tokens": 4,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 2,
        "stream": True,
    }
    response = engine.post("/v1/chat/completions", json=body)
    chunks = [
        json.loads(line[6:])["choices"][0]
        for line in response.text.splitlines()
        if line.startswith("data: {")
    ]
    spoken = [chunk for chunk in chunks if chunk["delta"].get("content")]
    assert "".join(chunk["delta"]["content"] for chunk in spoken) == "".join(
        entry["token"] for chunk in spoken for entry in chunk["logprobs"]["content"]
    )


def test_top_logprobs_need_logprobs(engine: RunningEngine) -> None:
    """Asked for alone they are refused."""
    assert engine.chat(is_ok=False, messages=STORY, top_logprobs=3)["error"]["code"] == 400


@pytest.mark.parametrize("is_strict", [True, False])
def test_json_schema(engine: RunningEngine, is_strict: bool) -> None:
    """The answer is of the schema, strict or not."""
    response_format = {
        "type": "json_schema",
        "json_schema": {"name": "p", "schema": SCHEMA, "strict": is_strict},
    }
    for seed in range(2):
        answer = json.loads(
            text(engine, response_format=response_format, max_tokens=300, temperature=1, seed=seed)
        )
        assert set(answer) == {"name", "age"}
        assert isinstance(answer["age"], int)


def test_json_object(engine: RunningEngine) -> None:
    """The answer begins an object; a small model may not come to its end."""
    assert text(engine, response_format={"type": "json_object"}).startswith("{")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nope"},
        {"$ref": "https://example.com/x"},
        {"type": "string", "pattern": "^(a+$"},
        {"enum": []},
    ],
    ids=["type", "foreign reference", "pattern", "nothing allowed"],
)
def test_a_bad_schema_is_refused(engine: RunningEngine, schema: dict[str, Any]) -> None:
    """With 400 and what is wrong with it."""
    response_format = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}
    error = engine.chat(is_ok=False, messages=STORY, response_format=response_format)["error"]
    assert error["code"] == 400
    assert "schema" in error["message"].lower()


def test_max_completion_tokens_wins(engine: RunningEngine) -> None:
    """Of the two limits the newer one counts; 0 is taken for 1."""

    def num_tokens(**body: Any) -> int:
        return int(engine.chat(messages=STORY, ignore_eos=True, **body)["usage"]["completion_tokens"])

    assert num_tokens(max_completion_tokens=3, max_tokens=9) == 3
    assert num_tokens(max_completion_tokens=9, max_tokens=3) == 9
    assert num_tokens(max_tokens=0) == 1


def test_usage_of_a_stream(engine: RunningEngine) -> None:
    """One last chunk without choices, where it was asked for."""
    body: dict[str, Any] = {"messages": STORY, "max_tokens": 3, "stream": True}
    for options, num_usages in (({}, 0), ({"stream_options": {"include_usage": True}}, 1)):
        response = engine.post("/v1/chat/completions", json=body | options)
        chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        assert [chunk["choices"] for chunk in chunks if chunk.get("usage")] == [[]] * num_usages


def test_developer_is_system(engine: RunningEngine) -> None:
    """The newer name of the role is rendered as the older."""
    messages = [{"role": "developer", "content": "Be brief."}, *STORY]
    assert engine.prompt(messages).startswith("<|im_start|>system\nBe brief.<|im_end|>")


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"max_tokens": "x"}, 400, "invalid_request_error"),
        ({"messages": []}, 200, None),
        ({"messages": "x"}, 400, "invalid_request_error"),
        ({"messages": [{"role": "user", "content": "hi " * 4000}]}, 400, "exceed_context_size_error"),
        ({"tools": "x"}, 500, "server_error"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "description": None}}]},
            500,
            "server_error",
        ),
    ],
    ids=["type", "no messages", "messages", "too long", "tools", "null in a tool"],
)
def test_error_shapes(engine: RunningEngine, body: dict[str, Any], status: int, kind: str | None) -> None:
    """What the gateway must translate: among others, malformed tools are a 500 here."""
    response = engine.post("/v1/chat/completions", json={"messages": STORY, "max_tokens": 2, **body})
    assert response.status_code == status
    assert response.json().get("error", {}).get("type") == kind


def test_a_tier_that_embeds(full_model: Path) -> None:
    """Vectors of length one for each input, up to the whole context; the same for the same text."""
    with running(full_model, embeddings=True, pooling="mean") as embedding:
        inputs = ["a cat", "hi " * 900, "a cat"]
        answer = embedding.post("/v1/embeddings", json={"input": inputs}).json()
        vectors = [entry["embedding"] for entry in answer["data"]]
        assert [len(vector) for vector in vectors] == [576] * 3
        assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-4) for vector in vectors)
        assert math.dist(vectors[0], vectors[2]) < 1e-2 < math.dist(vectors[0], vectors[1])
        assert answer["usage"]["prompt_tokens"] > 900


def test_embeddings_need_a_tier_of_their_own(engine: RunningEngine) -> None:
    """An engine that chats refuses to embed."""
    assert engine.post("/v1/embeddings", json={"input": "hi"}).status_code == 501


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/metrics", 401), ("/props", 401), ("/slots", 401)]
)
def test_what_needs_the_key(engine: RunningEngine, path: str, status: int) -> None:
    """All but the page about health."""
    assert engine.get(path, headers={"authorization": ""}).status_code == status
    assert engine.get(path).status_code == 200


def test_every_slot_reaches_the_whole_context(engine: RunningEngine) -> None:
    """The context that the tier promises is each request's, not shared out among the slots."""
    slots = engine.get("/slots").json()
    assert [slot["n_ctx"] for slot in slots] == [1024] * 4
    answer = engine.chat(messages=[{"role": "user", "content": "hi " * 900}], max_tokens=2)
    assert answer["usage"]["prompt_tokens"] > 900


def test_sampling_defaults_are_the_settings(engine: RunningEngine) -> None:
    """What a request leaves open is drawn as the tier's settings say."""
    defaults = engine.get("/props").json()["default_generation_settings"]["params"]
    ours = SamplingSettings()
    assert {name: round(defaults[name], 4) for name in SamplingSettings.model_fields} == ours.model_dump()
