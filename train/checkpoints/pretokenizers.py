"""How text is cut before bytes are paired: llama.cpp has a name for each way, `tokenizer.json` has the way itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

# llama.cpp's src/llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_LLAMA3
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _gpt2() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _single_digits() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _gpt2()])


def _llama3() -> PreTokenizer:
    return Sequence([Split(Regex(_LLAMA3), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS: dict[str, Callable[[], PreTokenizer]] = {
    "smollm": _single_digits,
    "starcoder": _single_digits,
    "gpt-2": _gpt2,
    "llama-bpe": _llama3,
}
IGNORES_MERGES = frozenset({"llama-bpe"})
"""Where a whole word that is a token is taken as it is."""


def name_of(tokenizer: dict[str, Any]) -> str | None:
    """llama.cpp's name of the way in a `tokenizer.json`; None where it is none of those above."""
    wanted = _bare(tokenizer["pre_tokenizer"])
    for name, make in PRE_TOKENIZERS.items():
        probe = Tokenizer(BPE())
        probe.pre_tokenizer = make()
        if _bare(json.loads(probe.to_str())["pre_tokenizer"]) == wanted:
            return name
    return None


def _bare(value: Any) -> Any:
    """Without what changes offsets only."""
    if isinstance(value, dict):
        return {key: _bare(member) for key, member in value.items() if key != "trim_offsets"}
    return [_bare(member) for member in value] if isinstance(value, list) else value
