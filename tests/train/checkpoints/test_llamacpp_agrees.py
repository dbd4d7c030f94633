"""llama.cpp and our own forward pass agree on converted weights, tokens and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from serving.engines.base import Endpoint
from tests.engines.real_engine import RunningEngine, released, running
from train.batch import Credit, Group
from train.checkpoints.directory import TOKENIZER
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]

ODD = """\

two  spaces   three    four
 leading
trailing\x20
I'll we've don't CAN'T isn’t
1234567890 3.14159e-10 x²+½=Ⅳ ३४
naïve café Ångström e\u0301 é ﬁ ＦＵＬＬｗｉｄｔｈ
日本語のテキスト 한국어 텍스트 𐍈𐌰 𝕏𝕚
שלום עולם مرحبا بالعالم
🙂👩‍👩‍👧‍👦🏳️‍🌈
zero\u200bwidth\ufeff nbsp\u00a0here
<|im_start|>user<|im_end|><|im_start<repo_name>x<|endoftext|>
def f(x): return x**2  # ok
{"a": [1, 2.5, null]}
\\frac{1}{2} \\sqrt[3]{x}
a_b-c.d/e:f;g !!!???...
https://example.org/?q=1&r=%20
\u0001\u007f""".split("\n")  # noqa: SIM905 - so that texts stand as they are
ODD += ["\n", "\n\n\n", "\t x\r\n y", "word" * 50, " " * 37 + "x", "\n".join(ODD)]


@dataclass(frozen=True, slots=True)
class Converted:
    directory: Path
    client: RunningEngine


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Converted]:
    """The full tier as safetensors, and an engine on the single-precision GGUF that is made of them."""
    place = tmp_path_factory.mktemp("converted")
    convert_from_gguf(GgufFile(released("full")), place)
    convert_to_gguf(place, place / "f32.gguf")
    with running(place / "f32.gguf") as client:
        yield Converted(place, client)
    (place / "f32.gguf").unlink()
    (place / "model.safetensors").unlink()


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_tokenisation_is_llamacpps(converted: Converted, text: str) -> None:
    """The tokenizer built from GGUF metadata cuts odd texts as the engine does, special tokens included, and back."""
    tokenizer = Tokenizer.from_file(str(converted.directory / TOKENIZER))
    found = tokenizer.encode(text).ids
    answer = converted.client.post("/tokenize", json={"content": text, "parse_special": True})
    assert found == answer.json()["tokens"]
    assert tokenizer.decode(found, skip_special_tokens=False) == text


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_log_probabilities_are_those_of_our_forward_pass(
    converted: Converted, temperature: float
) -> None:
    """On single-precision weights its log-probabilities, temperature included, are ours but for its half caches.

    Of 1,724 tokens that were sampled so, the median was .0007 nats apart, the mean .0014 and the furthest .026.
    """
    client = converted.client
    policy = LlamaPolicy(load_llama(converted.directory), temperature=temperature)
    prompts = [(1, 4093, 198, 1780, 418, 216, 35, 30), (504, 3575, 282, 4649, 314)]
    key = client.headers["authorization"].removeprefix("Bearer ")
    endpoint = Endpoint(url=str(client.base_url).rstrip("/"), api_key=key, keeps_connections=False)
    sampler = EngineSampler(endpoint, client.get("/v1/models").json()["data"][0]["id"])
    sampling = Sampling(temperature=temperature, max_tokens=24, stop_token_ids=(2,))
    answers = sampler.sample([SampleRequest(prompt, (1, 2, 3)) for prompt in prompts], sampling)
    groups = [
        Group("any", prompt, tuple(_credit(prompt, span) for span, _ in row))
        for prompt, row in zip(prompts, answers, strict=True)
    ]
    with torch.no_grad():
        scored = policy.score(groups).logprobs
    told = torch.tensor([each for row in answers for span, _ in row for each in span.behavior_logprobs or ()])
    apart = (told - scored).abs()
    assert len(told) > 30
    assert apart.mean() < 0.005
    assert apart.max() < 0.1


def test_characters_of_several_tokens_are_sampled_tokens(converted: Converted) -> None:
    """Tokens that end within a character are in the answer, though the engine holds them back, as are those at its end.

    Left out, what follows them would be scored behind another text, by nats.
    """
    client = converted.client
    key = client.headers["authorization"].removeprefix("Bearer ")
    endpoint = Endpoint(url=str(client.base_url).rstrip("/"), api_key=key, keeps_connections=False)
    tokenizer = Tokenizer.from_file(str(converted.directory / TOKENIZER))
    text = "Repeat after me: Île, Œuvre, 日本語のテキスト.\nÎle, Œuvre, 日本語"
    sampler = EngineSampler(endpoint, client.get("/v1/models").json()["data"][0]["id"])
    policy = LlamaPolicy(load_llama(converted.directory), temperature=0.7)
    whole = tuple(tokenizer.encode(text).ids)
    cuts = [end for end in range(len(whole)) if "\ufffd" in tokenizer.decode(whole[:end])]
    requests = [SampleRequest(whole[: cuts[0] - 1], (1, 2, 3)), SampleRequest(whole, (1, 2, 3))]
    answers = sampler.sample(requests, Sampling(temperature=0.7, max_tokens=6))
    groups = [
        Group("any", request.token_ids, tuple(_credit(request.token_ids, span) for span, _ in row))
        for request, row in zip(requests, answers, strict=True)
    ]
    with torch.no_grad():
        scored = policy.score(groups).logprobs
    told = torch.tensor([each for row in answers for span, _ in row for each in span.behavior_logprobs or ()])
    spans = [span.token_ids for row in answers for span, _ in row]
    assert any("\ufffd" in tokenizer.decode(span[:end]) for span in spans for end in range(1, 7))
    assert (told - scored).abs().max() < 0.1


def test_ends_are_sampled_tokens(converted: Converted) -> None:
    """The end token is in the answer, with its log-probability: what is learned of stopping needs it."""
    client = converted.client
    key = client.headers["authorization"].removeprefix("Bearer ")
    endpoint = Endpoint(url=str(client.base_url).rstrip("/"), api_key=key, keeps_connections=False)
    tokenizer = Tokenizer.from_file(str(converted.directory / TOKENIZER))
    prompt = "<|im_start|>user\nSay only: yes<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\nSay only: yes<|im_end|>\n<|im_start|>assistant\n"  # noqa: E501 - one prompt
    sampler = EngineSampler(endpoint, client.get("/v1/models").json()["data"][0]["id"])
    request = SampleRequest(tuple(tokenizer.encode(prompt).ids), (1,))
    ((span, stop),) = sampler.sample([request], Sampling(temperature=0, max_tokens=40, stop_token_ids=(2,)))[
        0
    ]
    assert (stop, span.token_ids[-1]) == (StopReason.END, 2)


def _credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.END), zeros, zeros)
