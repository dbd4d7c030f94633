"""Reads tool calls as the chat template asks for them: one `<tool_call>[{"name": …, "arguments": {…}}, …]</tool_call>`.

It stands at the end of a turn, text may stand before it, and nothing is mended: what is not in this form is told to
the policy, with the form. Serving's template (`serving/engines/templates/smollm2.jinja`) writes what is read here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from train.tools.base import ToolError
from train.tools.wire import parsed
from train.transcript import JsonValue, Message, ToolCall

OPENING: Final = "<tool_call>"
CLOSING: Final = "</tool_call>"


class MalformedCallError(ValueError):
    """A turn that means to call and is not in the form; the message is evidence for the policy."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a policy said and asked for."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    """None where it answered."""


def read_turn(text: str) -> Turn:
    """The turn that a text is.

    Raises:
        MalformedCallError: says what is wrong and how it would be right.
    """
    if OPENING not in text and CLOSING not in text:
        return Turn(text)
    if text.count(OPENING) != 1 or text.count(CLOSING) != 1:
        raise _malformed("there must be one section")
    before, _, rest = text.partition(OPENING)
    body, closing, after = rest.partition(CLOSING)
    if not closing or after.strip():
        raise _malformed("nothing may follow it")
    try:
        value = parsed(body, "calls")
    except ToolError as error:
        raise _malformed(str(error)) from None
    if not isinstance(value, list) or not value:
        raise _malformed("it must hold an array of at least one call")
    return Turn(before.strip(), tuple(map(_call, value)))


def written(message: Message) -> str:
    """What a policy says for such a turn: `read_turn` reads it back."""
    if not message.calls:
        return message.text
    calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in message.calls]
    section = f"{OPENING}{json.dumps(calls, ensure_ascii=False)}{CLOSING}"
    return f"{message.text}\n{section}" if message.text else section


def _call(value: JsonValue) -> ToolCall:
    if not isinstance(value, dict) or value.keys() != {"name", "arguments"}:
        raise _malformed("each call has a name and arguments, and nothing else")
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise _malformed("a name is a string, and arguments are an object")
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def _malformed(reason: str) -> MalformedCallError:
    return MalformedCallError(
        f'no call was made: {reason}. Write {OPENING}[{{"name": …, "arguments": {{…}}}}]{CLOSING} at the end'
    )
