"""What an application on the official `openai` client gets from two real tiers."""

from __future__ import annotations

import json

import openai
import pytest

pytestmark = pytest.mark.engines

HI = [{"role": "user", "content": "hi"}]
COPY = [{"role": "user", "content": "Repeat this exactly, and say nothing else: lemon"}]
OBJECT = [
    {
        "role": "user",
        "content": "Alice, 46, is a lawyer from Sydney.\n"
        'Give this as a JSON object with the key "name". Answer with the JSON only.',
    }
]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["city", "population"],
    "additionalProperties": False,
}


def test_chat_answers(client: openai.OpenAI) -> None:
    """A chat completion has text, one id, and a usage that adds up."""
    answer = client.chat.completions.create(model="auto", messages=HI, max_tokens=12)
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 12


def test_auto_picks_different_tiers_and_says_why(client: openai.OpenAI) -> None:
    """By the released outcomes both tiers copy, and the full tier alone writes JSON: so the object goes to the full
    tier, the copy to the cheaper one, and the headers tell the reason."""
    headers = {}
    for name, messages in (("object", OBJECT), ("copy", COPY)):
        raw = client.chat.completions.with_raw_response.create(model="auto", messages=messages, max_tokens=32)
        headers[name] = raw.headers
    assert headers["object"]["x-tierwise-tier"] == "full"
    assert headers["copy"]["x-tierwise-tier"] == "fast"
    for one in headers.values():
        assert one["x-tierwise-reason"] == "best_value"
        assert 0 < float(one["x-tierwise-success-probability"]) < 1
        assert float(one["x-tierwise-cost"]) > 0
        assert one["x-request-id"]


def test_stream_arrives_in_pieces(client: openai.OpenAI) -> None:
    """A stream has one id, the role first, several pieces, and no usage unless it was asked for."""
    chunks = list(client.chat.completions.create(model="full", messages=HI, max_tokens=10, stream=True))
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert sum(bool(chunk.choices[0].delta.content) for chunk in chunks) >= 2
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}
    assert all(chunk.usage is None for chunk in chunks)
    assert not any("timings" in (chunk.model_extra or {}) for chunk in chunks)


def test_stream_with_usage(client: openai.OpenAI) -> None:
    """`include_usage` brings one last chunk without choices, also where several choices were asked for."""
    for n in (1, 2):
        chunks = list(
            client.chat.completions.create(
                model="fast",
                messages=HI,
                max_tokens=5,
                n=n,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        assert [bool(chunk.usage) for chunk in chunks].count(True) == 1
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens <= 5 * n
        assert {choice.index for chunk in chunks for choice in chunk.choices} == set(range(n))


def test_several_choices_are_counted(client: openai.OpenAI) -> None:
    """With `n` choices the usage covers all of them, not the first alone."""
    answer = client.chat.completions.create(
        model="full", messages=HI, n=3, max_tokens=4, extra_body={"ignore_eos": True}
    )
    assert len(answer.choices) == 3
    assert answer.usage.completion_tokens == 12
    assert all(choice.logprobs is None for choice in answer.choices)


def test_forced_tool_call(client: openai.OpenAI) -> None:
    """A required tool is called, with arguments that are JSON of its schema; its result can be told."""
    question = {"role": "user", "content": "What is the weather in Paris?"}
    first = client.chat.completions.create(
        model="full",
        messages=[question],
        tools=[WEATHER],
        tool_choice="required",
        temperature=0,
        max_tokens=80,
    )
    assert first.choices[0].finish_reason == "tool_calls"
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)
    second = client.chat.completions.create(
        model="full",
        messages=[
            question,
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "21 degrees and sunny"},
        ],
        tools=[WEATHER],
        max_tokens=20,
    )
    assert second.choices[0].message.content or second.choices[0].message.tool_calls


def test_streamed_tool_call(client: openai.OpenAI) -> None:
    """In a stream the name comes once and the arguments in pieces that join to JSON."""
    chunks = list(
        client.chat.completions.create(
            model="full",
            messages=[{"role": "user", "content": "What is the weather in Paris?"}],
            tools=[WEATHER],
            tool_choice="required",
            temperature=0,
            max_tokens=80,
            stream=True,
        )
    )
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert [call.function.name for call in calls if call.function.name] == ["get_weather"]
    assert "city" in json.loads("".join(call.function.arguments or "" for call in calls))


def test_answer_to_a_schema(client: openai.OpenAI) -> None:
    """A JSON schema is held to by every tier."""
    for model in ("full", "fast"):
        answer = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Name a city and its population."}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": ANSWER_SCHEMA, "strict": True},
            },
            max_tokens=100,
            temperature=0,
        )
        told = json.loads(answer.choices[0].message.content)
        assert set(told) == {"city", "population"}
        assert isinstance(told["population"], int)


def test_logprobs(client: openai.OpenAI) -> None:
    """Log-probabilities come for every token, with as many alternatives as were asked for."""
    answer = client.chat.completions.create(
        model="full", messages=HI, max_tokens=4, logprobs=True, top_logprobs=3, temperature=0
    )
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in content)


def test_completions_with_logprobs(client: openai.OpenAI) -> None:
    """Text completions work, and their log-probabilities have the form of that API."""
    answer = client.completions.create(
        model="full", prompt="The capital of France is", max_tokens=3, logprobs=2, temperature=0
    )
    assert "Paris" in answer.choices[0].text
    logprobs = answer.choices[0].logprobs
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert logprobs.text_offset[0] == 0
    assert all(len(top) == 2 for top in logprobs.top_logprobs)


def test_seed_repeats(client: openai.OpenAI) -> None:
    """The same seed gives the same text."""
    texts = {
        client.chat.completions.create(model="full", messages=HI, max_tokens=16, seed=7, temperature=1.0)
        .choices[0]
        .message.content
        for _ in range(2)
    }
    assert len(texts) == 1


def test_stop_and_developer_role(client: openai.OpenAI) -> None:
    """A stop sequence ends the answer and is not part of it; a developer message is read."""
    answer = client.chat.completions.create(
        model="full",
        messages=[{"role": "developer", "content": "Count."}, {"role": "user", "content": "one two three"}],
        stop=["e"],
        max_completion_tokens=30,
    )
    assert "e" not in (answer.choices[0].message.content or "")


def test_response(client: openai.OpenAI) -> None:
    """The Responses API answers, with its own names of usage."""
    answer = client.responses.create(model="full", input="hi", max_output_tokens=12)
    assert answer.output_text
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


def test_response_stream(client: openai.OpenAI) -> None:
    """The client's accumulating stream helper follows a Responses stream to its end."""
    with client.responses.stream(model="full", input="hi", max_output_tokens=300, temperature=0) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds
    assert final.output_text


def test_service_tier_chooses_and_is_echoed(client: openai.OpenAI) -> None:
    """`flex` is the fast tier, `priority` the full one, and the answer repeats which."""
    for service_tier, tier in (("flex", "fast"), ("priority", "full")):
        raw = client.chat.completions.with_raw_response.create(
            model="auto", messages=HI, max_tokens=2, service_tier=service_tier
        )
        assert raw.headers["x-tierwise-tier"] == tier
        assert raw.parse().service_tier == service_tier


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": HI, "n": 0}, "n"),
        ({"messages": HI, "max_tokens": "many"}, "max_tokens"),
        ({"messages": HI, "service_tier": "gold"}, "service_tier"),
        ({"messages": HI, "stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": [{"role": "user", "content": "x " * 30_000}]}, "messages"),
        ({"messages": HI, "prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"messages": HI, "store": True}, "store"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
                ]
            },
            "messages",
        ),
    ],
)
def test_refusals_name_the_parameter(client: openai.OpenAI, body: dict, param: str) -> None:
    """What cannot be done is a 400 that names the parameter, never a silent omission."""
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body={"model": "auto", **body}, cast_to=object)
    assert refused.value.param == param


def test_unknown_model_and_unknown_url(client: openai.OpenAI) -> None:
    """A wrong model is a 404 that suggests the nearest; a wrong URL is one in the same shape."""
    with pytest.raises(openai.NotFoundError, match="did you mean 'fast'"):
        client.chat.completions.create(model="fasst", messages=HI)
    with pytest.raises(openai.NotFoundError, match="/v1"):
        client.post("/chat/complete", body={}, cast_to=object)


def test_models(client: openai.OpenAI) -> None:
    """The list of models names `auto`, the tiers, and what runs in them."""
    names = {model.id for model in client.models.list()}
    assert {"auto", "fast", "full"} <= names
    assert len(names) >= 5
