"""Texts of set lengths in the forms that requests have, for timing the router. Pure: the seed is a parameter."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Final

from router.request import RequestView

_WORDS: Final = re.findall(
    r"\w+",
    "what is the time of a train that leaves from there and how many people must it take without waiting for "
    "them if every second one is late explain why your answer holds and write it down in two sentences only",
)
_SCRIPT: Final = "为什么天空是蓝色的请用三句话解释并给出一个例子谢谢你的帮助我们明天再继续讨论这个问题"


def view_of_form(form: str, num_chars: int, *, seed: int) -> RequestView:
    """A request of this form whose text has so many characters."""
    generator = random.Random(seed)
    text = _repeated(FORMS[form], generator, num_chars)
    if form == "many turns":
        size = max(1, num_chars // 20)
        turns = tuple(text[at : at + size] for at in range(0, num_chars, size))
        return RequestView(endpoint="chat", model="auto", turns=turns, num_chars=num_chars)
    if form == "tool results":
        turns, rest = (text[: num_chars // 2],), num_chars
        return RequestView(
            endpoint="chat", model="auto", turns=turns, num_chars=rest, num_tools=4, is_tool_loop=True
        )
    return RequestView(endpoint="chat", model="auto", turns=(text,), num_chars=num_chars)


def _repeated(part: Callable[[random.Random], str], generator: random.Random, num_chars: int) -> str:
    parts, num = [], 0
    while num < num_chars:
        parts.append(part(generator))
        num += len(parts[-1])
    return "".join(parts)[:num_chars]


def _prose(generator: random.Random) -> str:
    return " ".join(generator.choices(_WORDS, k=12)).capitalize() + generator.choice(".?!") + " "


def _code(generator: random.Random) -> str:
    name, number = generator.choice(_WORDS), generator.randrange(1000)
    return f"def {name}_{number}(x: int) -> int:\n    return x * {number} + (x // 7)\n\n"


def _numbers(generator: random.Random) -> str:
    return " | ".join(f"{generator.random() * 1000:.2f}" for _ in range(6)) + "\n"


def _other_script(generator: random.Random) -> str:
    return "".join(generator.choices(_SCRIPT, k=18)) + "。"


def _strange(generator: random.Random) -> str:
    return "".join(chr(generator.randrange(33, 127)) for _ in range(60))


FORMS: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "prose": _prose,
    "code": _code,
    "numbers": _numbers,
    "other script": _other_script,
    "no words": _strange,
    "many turns": _prose,
    "tool results": _code,
}
"""How a part of each form is drawn."""
