"""GGUF metadata out of a tokenizer's files; the way back of `tokenizer_files`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf import GGUFValueType, TokenType

from train.checkpoints.directory import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    CheckpointError,
    chat_template,
    read_json,
)
from train.checkpoints.pretokenizers import name_of
from train.checkpoints.tokenizer_files import SPECIAL

Typed = dict[str, tuple[Any, tuple[GGUFValueType, ...]]]
_STRING, _UINT, _BOOL = (GGUFValueType.STRING,), (GGUFValueType.UINT32,), (GGUFValueType.BOOL,)
_STRINGS, _INTS = (GGUFValueType.ARRAY, GGUFValueType.STRING), (GGUFValueType.ARRAY, GGUFValueType.INT32)


def tokenizer_metadata(directory: Path, vocab_size: int) -> Typed:
    """Key → value and types.

    Args:
        directory: holds `tokenizer.json` and `tokenizer_config.json`.
        vocab_size: of the model; ids that the tokenizer lacks become unused tokens.

    Raises:
        CheckpointError: a file is missing, or the tokenizer is of a kind that is not known here.
    """
    tokenizer, config = read_json(directory / TOKENIZER), read_json(directory / TOKENIZER_CONFIG)
    pre = name_of(tokenizer) if tokenizer["model"].get("type") == "BPE" else None
    if pre is None:
        raise CheckpointError(
            f"{directory / TOKENIZER} is no byte-pair tokenizer of a known kind; write the GGUF with the metadata of "
            "one of the same family (`like`)"
        )
    tokens, types = _vocabulary(tokenizer, vocab_size)
    ids = {token: index for index, token in enumerate(tokens)}
    found: Typed = {
        "tokenizer.ggml.model": ("gpt2", _STRING),
        "tokenizer.ggml.pre": (pre, _STRING),
        "tokenizer.ggml.tokens": (tokens, _STRINGS),
        "tokenizer.ggml.token_type": (types, _INTS),
        "tokenizer.ggml.merges": ([_spelled(merge) for merge in tokenizer["model"]["merges"]], _STRINGS),
        "tokenizer.ggml.add_bos_token": (bool(config.get("add_bos_token", False)), _BOOL),
        "tokenizer.ggml.add_space_prefix": (False, _BOOL),
    }
    for role, key in SPECIAL.items():
        token = config.get(f"{role}_token")
        text = token["content"] if isinstance(token, dict) else token
        if text is not None:
            found[f"tokenizer.ggml.{key}_token_id"] = (ids[text], _UINT)
    if template := chat_template(directory):
        found["tokenizer.chat_template"] = (template, _STRING)
    return found


def _vocabulary(tokenizer: dict[str, Any], vocab_size: int) -> tuple[list[str], list[int]]:
    tokens = [f"[unused{index}]" for index in range(vocab_size)]
    types = [int(TokenType.UNUSED)] * vocab_size
    for token, index in tokenizer["model"]["vocab"].items():
        tokens[index], types[index] = token, int(TokenType.NORMAL)
    for added in tokenizer["added_tokens"]:
        kind = TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
        tokens[added["id"]], types[added["id"]] = added["content"], int(kind)
    return tokens, types


def _spelled(merge: str | list[str]) -> str:
    return merge if isinstance(merge, str) else " ".join(merge)
