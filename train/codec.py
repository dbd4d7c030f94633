"""Between text and tokens: how a task becomes a prompt, and an answer becomes text. Each direction happens once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from train.transcript import JsonValue, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


class CodecError(ValueError):
    """A text that cannot be said in these tokens."""


class Codec(Protocol):
    """What a policy reads and writes."""

    @property
    def end_token_id(self) -> int:
        """Ends an answer."""
        ...

    @property
    def num_tokens(self) -> int:
        """Of the vocabulary."""
        ...

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        """Up to where the policy's first word goes."""
        ...

    def answer(self, text: str) -> tuple[int, ...]:
        """An answer with its end."""
        ...

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """What stands between an answer's end token and the policy's next word when these messages come: given
        tokens. Whatever the policy sampled before stays as it was sampled."""
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """What was answered, without its end."""
        ...


class CharacterCodec:
    """A character a token: line feed and printable ASCII, an end, and a mark where the answer begins."""

    end_token_id = len(CHARACTERS)
    num_tokens = len(CHARACTERS) + 2
    _begin_token_id = len(CHARACTERS) + 1

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        """The messages' texts, a line each.

        Raises:
            CodecError: other characters, or tools, of which it cannot tell.
        """
        if tools:
            raise CodecError("a policy of characters knows no tools; give the domain to a larger base")
        return (*self._ids("\n".join(message.text for message in messages)), self._begin_token_id)

    def answer(self, text: str) -> tuple[int, ...]:
        """The characters and the end."""
        return (*self._ids(text), self.end_token_id)

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The messages' texts, a line each."""
        return (*self._ids("\n" + "\n".join(message.text for message in messages)), self._begin_token_id)

    def text(self, token_ids: Sequence[int]) -> str:
        """The characters; marks are left out."""
        return "".join(CHARACTERS[token] for token in token_ids if token < len(CHARACTERS))

    @staticmethod
    def _ids(text: str) -> tuple[int, ...]:
        ids = tuple(map(CHARACTERS.find, text))
        if -1 in ids:
            raise CodecError(f"{text[ids.index(-1)]!r} is no character of this policy's")
        return ids


class ChatCodec:
    """A checkpoint's own tokenizer and chat template.

    Args:
        directory: of the checkpoint, in Hugging Face's form.

    Raises:
        CodecError: it has no chat template.
    """

    def __init__(self, directory: Path) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(directory)
        if not self.tokenizer.chat_template:
            raise CodecError(
                f"{directory} has no chat template; put a chat_template.jinja beside its tokenizer"
            )
        self._tail = self._find_tail()

    @property
    def end_token_id(self) -> int:
        """The tokenizer's end of sequence, which ends a turn of chat."""
        end = self.tokenizer.eos_token_id
        assert isinstance(end, int), "a chat model has one end token"
        return end

    @property
    def num_tokens(self) -> int:
        """Of the vocabulary, added tokens included."""
        return len(self.tokenizer)

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        """As the template renders it, up to the assistant's first word."""
        return self._rendered([_plain(message) for message in messages], tools)

    def answer(self, text: str) -> tuple[int, ...]:
        """The text and the end of its turn."""
        return (*self.tokenizer.encode(text, add_special_tokens=False), self.end_token_id)

    def text(self, token_ids: Sequence[int]) -> str:
        """Without special tokens, to the byte."""
        text = self.tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str), "one answer is one text"
        return text

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """As the template renders them behind a fixed turn, less what it renders without them."""
        head = [{"role": "user", "content": "."}, {"role": "assistant", "content": "."}]
        return self._rendered([*head, *map(_plain, messages)])[len(self._tail) :]

    def _find_tail(self) -> tuple[int, ...]:
        """The tokens of a fixed turn up to and with its end."""
        head = [{"role": "user", "content": "."}, {"role": "assistant", "content": "."}]
        whole = self._rendered(head)
        return whole[: len(whole) - whole[::-1].index(self.end_token_id)]

    def _rendered(
        self, messages: list[dict[str, Any]], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        text = self.tokenizer.apply_chat_template(
            messages, tools=list(tools) or None, add_generation_prompt=True, tokenize=False
        )
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))


def _plain(message: Message) -> dict[str, Any]:
    """As a chat template reads it."""
    plain: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        plain["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": _arguments(call.arguments)}}
            for call in message.calls
        ]
    return plain


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
