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

UNSUPPORTED_PARAMETERS: Final = frozenset(IGNORED)

REASONING: Final = frozenset({"reasoning", "reasoning_effort"})
"""Dropped as well where the model's template takes no effort (`chat_template_caps.supports_reasoning_effort`)."""

NATIVE_ENDPOINTS: Final = frozenset({"chat", "completions"})
"""It has `/v1/responses` too, which drops `text.format`, `include` and hosted tools without a word, refuses refusals
and reasoning without content in `input`, and calls an answer that was cut off completed. Its chat API does none of
this, so the gateway translates."""
