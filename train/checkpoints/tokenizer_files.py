"""A tokenizer's files out of GGUF metadata: `tokenizer.json`, `tokenizer_config.json`, the chat template.

Byte-level pair encoding only, which is what GGUF calls `gpt2`; other kinds are refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gguf import TokenType
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from train.checkpoints.directory import CHAT_TEMPLATE, TOKENIZER, TOKENIZER_CONFIG, CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.pretokenizers import IGNORES_MERGES, PRE_TOKENIZERS

SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""Role in Hugging Face's files → in GGUF's keys."""


def read_tokenizer(file: GgufFile) -> Tokenizer:
    """The tokenizer that llama.cpp would use.

    Raises:
        CheckpointError: it is of a kind, or cuts text in a way, that is not known here.
    """
    kind, pre = file.need("tokenizer.ggml.model"), file.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or pre not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"{file.path} has a tokenizer {kind!r} cut as {pre!r}; only byte pairs ('gpt2') cut as "
            f"{', '.join(PRE_TOKENIZERS)} are built here: bring the model in from its Hugging Face directory"
        )
    tokens: list[str] = file.need("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in file.need("tokenizer.ggml.merges")]
    types: list[int] = file.need("tokenizer.ggml.token_type")
    vocabulary = {
        token: index
        for index, (token, kind_of_token) in enumerate(zip(tokens, types, strict=True))
        if kind_of_token != TokenType.UNUSED
    }
    made = Tokenizer(BPE(vocab=vocabulary, merges=merges, ignore_merges=pre in IGNORES_MERGES))
    made.pre_tokenizer = PRE_TOKENIZERS[pre]()
    made.decoder = ByteLevelDecoder()
    for token, kind_of_token in zip(tokens, types, strict=True):
        if kind_of_token in {TokenType.CONTROL, TokenType.USER_DEFINED}:
            is_special = kind_of_token == TokenType.CONTROL
            made.add_tokens([AddedToken(token, special=is_special, normalized=False)])
    if file.get("tokenizer.ggml.add_bos_token", False):
        bos = tokens[int(file.need("tokenizer.ggml.bos_token_id"))]
        made.post_processor = TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, vocabulary[bos])]
        )
    return made


def special_ids(file: GgufFile) -> dict[str, int]:
    """Role, as `eos` → token id, of those that the file names."""
    found = {role: file.get(f"tokenizer.ggml.{key}_token_id") for role, key in SPECIAL.items()}
    return {role: int(index) for role, index in found.items() if index is not None}


def write_tokenizer(file: GgufFile, directory: Path) -> None:
    """Write the files into an existing directory.

    Raises:
        CheckpointError: as `read_tokenizer`.
    """
    read_tokenizer(file).save(str(directory / TOKENIZER))
    tokens = file.need("tokenizer.ggml.tokens")
    config: dict[str, Any] = {f"{role}_token": tokens[index] for role, index in special_ids(file).items()}
    config |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": bool(file.get("tokenizer.ggml.add_bos_token", False)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(file.need("llama.context_length")),
    }
    template = file.get("tokenizer.chat_template")
    if template is not None:
        (directory / CHAT_TEMPLATE).write_text(template, encoding="utf-8")
    (directory / TOKENIZER_CONFIG).write_text(
        json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
