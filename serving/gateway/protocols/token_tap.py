"""What an engine says of its first tokens, taken from its answer; the client sees no more of it than it asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.first_tokens import MAX_TOKENS, FirstTokens, of_content

NUM_ALTERNATIVES: Final = 2
"""`top_logprobs` that a margin needs."""


class TokenTap:
    """Reads the log-probabilities of one choice's first tokens.

    Args:
        is_hidden: the client did not ask for log-probabilities, so they are taken out of what it gets.
    """

    def __init__(self, *, is_hidden: bool) -> None:
        self.tokens = FirstTokens(logprobs=(), margins=())
        """Those that have passed so far, `router.first_tokens.MAX_TOKENS` at most."""
        self._is_hidden = is_hidden

    def take(self, parsed: dict[str, Any]) -> None:
        """Look at an object of a chat completion, whole or chunk, and take out what is not the client's."""
        for choice in parsed.get("choices") or ():
            if len(self.tokens) < MAX_TOKENS:
                self._grow(choice)
            if self._is_hidden:
                choice.pop("logprobs", None)

    def _grow(self, choice: Mapping[str, Any]) -> None:
        content = (choice.get("logprobs") or {}).get("content")
        if content:
            more = of_content(content)
            self.tokens = FirstTokens(
                logprobs=self.tokens.logprobs + more.logprobs, margins=self.tokens.margins + more.margins
            ).first(MAX_TOKENS)
