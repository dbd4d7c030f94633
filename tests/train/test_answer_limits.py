"""How long an answer may be: what was said of its domain comes first, then what work takes, then the item."""

from __future__ import annotations

from typing import Any

from tests.train.test_trainer import small
from train import modes
from train.answer_limits import AnswerLimits
from train.codec import CharacterCodec
from train.domains.catalog import get
from train.parts import Parts

NAME = "terse_addition"
ITEM = get(NAME).item(0, 0, 1)


def limit(**changes: object) -> int:
    """Of an item of additions, under a recipe."""
    unused: Any = None
    parts = Parts(unused, unused, CharacterCodec(), {NAME: get(NAME)}, unused)
    return AnswerLimits(small(**changes), parts)(ITEM)


def test_who_says_how_long_an_answer_may_be() -> None:
    """The recipe's number holds with modes and without; else modes have room for work, which the item has not."""
    own: dict[str, object] = {"domains": [{"name": NAME, "max_answer_tokens": 3}]}
    nothing: dict[str, object] = {"domains": [{"name": NAME}]}
    assert limit(**own) == limit(**own, modes={}) == 3
    assert limit(**nothing) == ITEM.max_answer_tokens
    with_work = limit(**nothing, modes={})
    assert with_work == modes.max_tokens(CharacterCodec(), get(NAME), ITEM) > ITEM.max_answer_tokens
