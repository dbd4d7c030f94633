"""What llama.cpp's server makes of OpenAI's requests, where that is not what OpenAI's documentation says.

Tried one by one on llama.cpp b11549 (`xllamacpp` 2026.10); `tests/engines/test_llamacpp_dialect.py` tries them again on
the engine that is installed. Everything not listed works: sampling parameters, penalties, `logit_bias`, `seed`, `stop`,
`n` up to the number of slots, `logprobs` with 1–20 `top_logprobs`, `response_format`, `stream_options`, the developer
role (rendered as system), `max_completion_tokens` (which wins over `max_tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IGNORED: Final[Mapping[str, str]] = {
    "audio": "it writes text only",
    "background": "it keeps no responses",
    "best_of": "one completion is drawn, and none is compared",
    "conversation": "it keeps no conversations",
    "echo": "the prompt is not repeated",
    "function_call": "only `tool_choice` is read",
    "functions": "only `tools` is read",
    "metadata": "nothing is stored",
    "moderation": "it moderates nothing",
    "modalities": "it writes text only",
    "prediction": "it speculates with a draft model or n-grams, not with the client's text",
    "prompt_cache_key": "prompts are matched by their tokens",
    "prompt_cache_retention": "prompts are kept as memory allows",
    "safety_identifier": "nobody is told of it",
    "service_tier": "there is one tier",
    "store": "nothing is stored",
    "suffix": "completions go forward only",
    "user": "nobody is told of it",
    "verbosity": "templates have no such notion",
    "web_search_options": "it searches nothing",
}
"""Request member → why llama.cpp drops it without a word."""

REFUSED: Final[Mapping[str, str]] = {
    "grammar": "one with tens of thousands of nested brackets ends the process",
    "messages[].tool_calls[].function.arguments": "what is not JSON is an error 500, and nested deep ends the process",
    "response_format.json_schema.schema.enum": "each of a thousand values takes milliseconds of every token",
}
"""Request member → why it must not reach llama.cpp."""


def unsupported_parameters(*, takes_effort: bool, forces_calls: bool) -> frozenset[str]:
    """What the gateway must answer itself or refuse.

    Args:
        takes_effort: the model's template has a use for `reasoning_effort`.
        forces_calls: a required tool call can be made to begin (`llamacpp_tools.force_call`).
    """
    names = set(IGNORED) | set(REFUSED)
    if not takes_effort:
        names |= {"reasoning", "reasoning_effort"}
    if not forces_calls:
        names.add("tool_choice")
    return frozenset(names)


NATIVE_ENDPOINTS: Final = frozenset({"chat", "completions"})
"""It has `/v1/responses` too, which drops `text.format`, `include` and hosted tools without a word, refuses refusals
and reasoning without content in `input`, and calls an answer that was cut off completed. Its chat API does none of
this, so the gateway translates."""
