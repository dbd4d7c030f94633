"""The texts along which a published policy is held against the one it was made of.

Few, and of as many domains as can be: a run on a hundred domains is published as soon as one on ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from train.codec import Codec
from train.domains import catalog
from train.domains.base import Item
from train.evaluate import held_out
from train.recipe import DomainSettings
from train.transcript import Message

MAX_TEXTS: Final = 64
"""Two models read each; an answer is a few tokens, and all of these are some hundred places to compare at."""
MAX_PER_DOMAIN: Final = 4

Text = tuple[tuple[int, ...], tuple[int, ...]]
"""A prompt, and its reference answer."""


def compared_texts(domains: Sequence[DomainSettings], codec: Codec) -> list[Text]:
    """Prompts of held-out items with their reference answers, at most `MAX_TEXTS`: as many of each domain as there is
    room for, and where there are more domains than room, one of every so manieth. Items with tools are left out."""
    plain = [settings for settings in domains if _plain_items(settings, 1)]
    if not plain:
        return []
    num = min(len(plain), MAX_TEXTS)
    chosen = [plain[place * len(plain) // num] for place in range(num)]
    num_each = min(MAX_PER_DOMAIN, MAX_TEXTS // num)
    return [
        (
            codec.prompt([Message("user", item.prompt)]),
            codec.answer(catalog.get(settings.name).reference(item).answer),
        )
        for settings in chosen
        for item in _plain_items(settings, num_each)
    ]


def _plain_items(settings: DomainSettings, num: int) -> list[Item]:
    items = held_out(catalog.get(settings.name), settings.levels, num)
    return [item for item in items if item.environment is None]
