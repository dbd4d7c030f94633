"""Greedy answers as tokens with their times, from either engine, and how sure it was of a token. One request at a time.

llama.cpp is asked by its own `/completion`, since its chat API does not tell token numbers; vLLM by its chat API. Both
stream, so that what the first token took (prompts are read then, by a model that drafts too) can be told from the rest.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, Protocol

import orjson

from loadtests.tuning.load import ServedEngine
from loadtests.tuning.search import EngineDown

TIMEOUT_S: Final = 600.0
NUM_ALTERNATIVES: Final = 20
"""Tokens whose log-probabilities are asked for; vLLM's default maximum."""
_WHOLE_CHARACTERS: Final = "root ::= [ -~]*"
"""Of what it writes; llama.cpp says no log-probabilities at a token that ends within a character."""
_DRAFTED: Final = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was said to one prompt."""

    prompt_tokens: tuple[int, ...]
    tokens: tuple[int, ...]
    request_s: float
    """From the request to the last token."""
    decode_s: float
    """From the first token to the last."""
    num_drafted: int
    num_accepted: int


class Dialect(Protocol):
    """How an engine is asked."""

    def answer(self, engine: ServedEngine, prompt: str, max_tokens: int) -> Answer:
        """What it says to a prompt at temperature 0.

        Raises:
            EngineDown: it does not answer.
        """
        ...

    def logprobs(self, engine: ServedEngine, tokens: Sequence[int]) -> Mapping[int, float]:
        """Token → log-probability of the likeliest after these.

        Raises:
            EngineDown: it does not answer.
        """
        ...


class LlamaCpp:
    """Implements `Dialect`."""

    def answer(self, engine: ServedEngine, prompt: str, max_tokens: int) -> Answer:
        """As `Dialect.answer`."""
        messages = [{"role": "user", "content": prompt}]
        rendered = _post(engine, "/apply-template", {"messages": messages})["prompt"]
        told = _post(engine, "/tokenize", {"content": rendered, "add_special": True, "parse_special": True})
        prompt_tokens = tuple(told["tokens"])
        body = self._body(prompt_tokens, max_tokens) | {"stream": True, "return_tokens": True}
        clock = _Clock()
        timings: dict[str, Any] = {}
        for event in _stream(engine, "/completion", body):
            clock.add(event.get("tokens") or ())
            timings = event.get("timings") or timings
        return clock.answer(
            prompt_tokens, timings.get("draft_n") or 0, timings.get("draft_n_accepted") or 0, engine.url
        )

    def logprobs(self, engine: ServedEngine, tokens: Sequence[int]) -> Mapping[int, float]:
        """As `Dialect.logprobs`."""
        asked = {"n_probs": NUM_ALTERNATIVES, "grammar": _WHOLE_CHARACTERS}
        told = _post(engine, "/completion", self._body(tokens, 1) | asked)
        (only,) = told["completion_probabilities"]
        return {each["id"]: each["logprob"] for each in only["top_logprobs"]}

    def _body(self, tokens: Sequence[int], max_tokens: int) -> dict[str, Any]:
        return {"prompt": list(tokens), "n_predict": max_tokens, "temperature": 0, "cache_prompt": False}


class Vllm:
    """Implements `Dialect`. Its counters are the server's, so that nobody else may ask meanwhile."""

    def answer(self, engine: ServedEngine, prompt: str, max_tokens: int) -> Answer:
        """As `Dialect.answer`."""
        drafted, accepted = self._counters(engine)
        body = {
            "model": engine.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "return_token_ids": True,
        }
        clock = _Clock()
        prompt_tokens: tuple[int, ...] = ()
        for event in _stream(engine, "/v1/chat/completions", body):
            prompt_tokens = tuple(event.get("prompt_token_ids") or prompt_tokens)
            for choice in event["choices"]:
                clock.add(choice.get("token_ids") or ())
        drafted_then, accepted_then = self._counters(engine)
        return clock.answer(prompt_tokens, drafted_then - drafted, accepted_then - accepted, engine.url)

    def logprobs(self, engine: ServedEngine, tokens: Sequence[int]) -> Mapping[int, float]:
        """As `Dialect.logprobs`."""
        body = {"model": engine.model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0}
        body |= {"logprobs": NUM_ALTERNATIVES, "return_tokens_as_token_ids": True}
        (likeliest,) = _post(engine, "/v1/completions", body)["choices"][0]["logprobs"]["top_logprobs"]
        return {int(name.removeprefix("token_id:")): logprob for name, logprob in likeliest.items()}

    def _counters(self, engine: ServedEngine) -> tuple[int, int]:
        with _opened(engine, "/metrics", None) as response:
            lines = response.read().decode().splitlines()
        found = [
            sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name))
            for name in (_DRAFTED, _ACCEPTED)
        ]
        return found[0], found[1]


class _Clock:
    """Tokens as they come."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._first_s = self._last_s = 0.0
        self._tokens: list[int] = []

    def add(self, tokens: Sequence[int]) -> None:
        """What an event brought."""
        if tokens:
            self._last_s = time.monotonic()
            self._first_s = self._first_s or self._last_s
            self._tokens += tokens

    def answer(self, prompt_tokens: tuple[int, ...], num_drafted: int, num_accepted: int, url: str) -> Answer:
        """The whole.

        Raises:
            EngineDown: the engine does not tell tokens.
        """
        if not self._tokens or not prompt_tokens:
            raise EngineDown(f"{url} does not tell its tokens: take a newer engine")
        return Answer(
            prompt_tokens=prompt_tokens,
            tokens=tuple(self._tokens),
            request_s=self._last_s - self._began_s,
            decode_s=self._last_s - self._first_s,
            num_drafted=num_drafted,
            num_accepted=num_accepted,
        )


def _post(engine: ServedEngine, path: str, body: dict[str, Any]) -> dict[str, Any]:
    with _opened(engine, path, body) as response:
        answer: dict[str, Any] = orjson.loads(response.read())
        return answer


def _stream(engine: ServedEngine, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with _opened(engine, path, body) as response:
        for line in response:
            if line.startswith(b"data: ") and b"[DONE]" not in line:
                event: dict[str, Any] = orjson.loads(line[6:])
                if "error" in event:
                    raise EngineDown(f"{engine.url}{path}: {event['error']}")
                yield event


@contextmanager
def _opened(engine: ServedEngine, path: str, body: dict[str, Any] | None) -> Iterator[Any]:
    headers = {"content-type": "application/json", "connection": "close"}
    if engine.api_key is not None:
        headers["authorization"] = f"Bearer {engine.api_key}"
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(f"{engine.url}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            yield response
    except urllib.error.HTTPError as error:
        raise EngineDown(f"{engine.url}{path} answered {error.code}: {error.read()[:300]!r}") from None
    except (OSError, HTTPException, orjson.JSONDecodeError) as error:
        raise EngineDown(f"{engine.url}{path} gave no answer ({error!r})") from None
