"""Codecs: text survives the way there and back, and what a policy sampled is never rendered again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from train.codec import CHARACTERS, CharacterCodec, ChatCodec, CodecError
from train.transcript import Message, ToolCall

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}"
    "{% for c in m.get('tool_calls') or [] %}!{{ c['function']['name'] }}{% endfor %}<e>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@given(st.text(CHARACTERS))
def test_characters_there_and_back(text: str) -> None:
    """What is answered is what is read, without its end."""
    codec = CharacterCodec()
    tokens = codec.answer(text)
    assert codec.text(tokens) == text
    assert tokens[-1] == codec.end_token_id
    assert max(tokens) < codec.num_tokens


def test_other_characters_are_refused() -> None:
    """A text that the policy cannot read names the character."""
    with pytest.raises(CodecError, match="'é'"):
        CharacterCodec().prompt([Message("user", "café")])
    with pytest.raises(CodecError, match="no tools"):
        CharacterCodec().prompt([Message("user", "a")], [{"type": "function"}])


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatCodec:
    """A byte-level tokenizer with a small template."""
    vocabulary = {
        token: place
        for place, token in enumerate(["<s>", "<e>", *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<e>")
    fast.chat_template = TEMPLATE
    directory: Path = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(directory)
    return ChatCodec(directory)


@given(text=st.text(max_size=40))
def test_chat_there_and_back(chat: ChatCodec, text: str) -> None:
    """Bytes survive, spaces and all."""
    assert chat.text(chat.answer(text)) == text


def test_reply_continues_what_was_sampled(chat: ChatCodec) -> None:
    """Prompt, answer and reply laid end to end are what the template renders of the whole conversation."""
    task, said = Message("user", "2+2?"), Message("assistant", " 5 ")
    evidence = Message("user", "no")
    whole = chat.prompt([task, said, evidence])
    assert chat.prompt([task]) + chat.answer(said.text) + chat.reply([evidence]) == whole


def test_calls_are_rendered_by_name(chat: ChatCodec) -> None:
    """A transcript with calls can be put before a policy; arguments that are no JSON are shown as they are."""
    tokens = chat.prompt([Message("assistant", "", (ToolCall("sql_query", "{not json"),))])
    assert "!sql_query" in chat.text(tokens)


def test_checkpoint_without_template_is_refused(tmp_path: Path, chat: ChatCodec) -> None:
    """It is not guessed how a model wants to be spoken to."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(chat.tokenizer.name_or_path)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(CodecError, match=r"chat_template\.jinja"):
        ChatCodec(tmp_path)
