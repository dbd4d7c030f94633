"""`/v1/completions`: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.request import RequestView
from serving.gateway.body import require, splice
from serving.gateway.errors import invalid
from serving.gateway.levers import Levers
from serving.gateway.protocols import parameters
from serving.gateway.protocols.assembled import AssemblingReader
from serving.gateway.protocols.base import Forward, Target
from serving.gateway.protocols.choices import ChoicesReader


class CompletionsAdapter:
    """Text completions, relayed like chat."""

    endpoint = "completions"

    def is_streaming(self, fields: Mapping[str, Any]) -> bool:
        """Whether the client asked for a stream."""
        return parameters.is_streaming(fields)

    def view(self, fields: Mapping[str, Any], levers: Levers) -> RequestView:
        """What the router may know of the prompt. Token ids have no text, so that only their number counts."""
        turns, num_chars = _read_prompt(fields)
        set_parameters = parameters.set_parameters(fields)
        return RequestView(
            endpoint=self.endpoint,
            model=parameters.model_of(fields),
            turns=turns,
            num_chars=num_chars,
            needs_logprobs=_num_top_logprobs(fields) is not None,
            num_choices=parameters.count(fields, "n", default=1) or 1,
            max_output_tokens=parameters.count(fields, "max_tokens", least=0),
            service_tier=parameters.service_tier(fields),
            wanted_arm=levers.wanted_arm,
            max_cost=levers.max_cost,
            min_quality=levers.min_quality,
            session=levers.session,
            parameters=set_parameters | {PROMPT_LIST} if len(turns) > 1 else set_parameters,
        )

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The client's body under the engine's name of the model."""
        changes = parameters.for_target(fields, target) | parameters.stream_changes(fields, target)
        num_top = _num_top_logprobs(fields)
        if num_top == 0:
            # 0 means the chosen tokens without alternatives; llama.cpp gives no log-probs at all for it.
            changes["logprobs"] = 1
        is_assembled = parameters.is_assembled(fields, target)
        num_prompts = len(_read_prompt(fields)[0])
        reader = ChoicesReader(
            wants_usage=is_assembled or parameters.wants_usage(fields),
            wants_chunk_usage=parameters.wants_chunk_usage(fields),
            num_choices=num_prompts * (parameters.count(fields, "n", default=1) or 1),
            expose_vendor_fields=target.expose_vendor_fields,
            service_tier=target.service_tier,
            reshape=LegacyLogprobs(num_top).reshape if num_top is not None else None,
        )
        return Forward(
            path="/v1/completions",
            body=splice(raw, fields, changes),
            reader=AssemblingReader(reader) if is_assembled else reader,
        )


PROMPT_LIST = "prompt[]"
"""In `RequestView.parameters`: several prompts in one request, which not every engine counts rightly."""


class LegacyLogprobs:
    """Rewrites chat-shaped log-probabilities, which llama.cpp sends here too, into the completions API's own form.

    Args:
        num_top: alternatives that were asked for; 0 for the chosen tokens alone.
    """

    def __init__(self, num_top: int) -> None:
        self._num_top = num_top
        self._offsets: dict[int, int] = {}
        """Characters of each choice so far: `text_offset` counts over a whole stream."""

    def reshape(self, parsed: dict[str, Any]) -> None:
        """Change `parsed` in place; log-probabilities that have the right form already stay."""
        for choice in parsed.get("choices") or ():
            logprobs = choice.get("logprobs")
            if not isinstance(logprobs, dict):
                continue
            if isinstance(logprobs.get("content"), list):
                logprobs = choice["logprobs"] = self._legacy(choice.get("index", 0), logprobs["content"])
            if self._num_top == 0:
                logprobs["top_logprobs"] = None

    def _legacy(self, index: int, content: list[dict[str, Any]]) -> dict[str, Any]:
        offsets = []
        for entry in content:
            offsets.append(self._offsets.get(index, 0))
            self._offsets[index] = offsets[-1] + len(entry["token"])
        return {
            "tokens": [entry["token"] for entry in content],
            "token_logprobs": [entry["logprob"] for entry in content],
            "top_logprobs": [
                {top["token"]: top["logprob"] for top in entry.get("top_logprobs") or ()} for entry in content
            ],
            "text_offset": offsets,
        }


def _num_top_logprobs(fields: Mapping[str, Any]) -> int | None:
    """`logprobs`, which counts the alternatives; None where none are asked for. Some clients send a bool."""
    logprobs = require(fields, "logprobs", (int, bool), "a whole number")
    return None if logprobs is None or logprobs is False else int(logprobs)


def _read_prompt(fields: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """The prompts' text, one turn each, and the number of characters they amount to."""
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return (prompt,), len(prompt)
    if isinstance(prompt, list) and prompt:
        if all(isinstance(text, str) for text in prompt):
            return tuple(prompt), sum(map(len, prompt))
        if all(isinstance(token, int) for token in prompt):
            return ("",), 4 * len(prompt)
        if all(isinstance(tokens, list) for tokens in prompt):
            return ("",) * len(prompt), 4 * sum(map(len, prompt))
    raise invalid(
        "`prompt` must be a string, a list of strings, or token ids.", "prompt", "missing_required_parameter"
    )
