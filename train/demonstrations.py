"""What is learned by heart: reference answers, in each mode where answers have modes."""

from __future__ import annotations

from collections.abc import Iterable

from train.batch import Credit, Group
from train.credit import by_heart
from train.domains.base import Item
from train.modes import solutions
from train.parts import Parts
from train.transcript import Message


def demonstrations(items: Iterable[Item], parts: Parts, *, has_modes: bool) -> list[Group]:
    """A group for each item: its answer, or its answers in each mode behind one prompt."""
    return [_demonstration(item, parts, has_modes=has_modes) for item in items]


def _demonstration(item: Item, parts: Parts, *, has_modes: bool) -> Group:
    codec, domain = parts.codec, parts.domains[item.domain]
    prompt = codec.prompt([Message("user", item.prompt)])
    answers = solutions(codec, domain, item) if has_modes else (codec.answer(domain.reference(item).answer),)
    groups = [by_heart(item.domain, prompt, answer) for answer in answers]
    credits: tuple[Credit, ...] = tuple(credit for group in groups for credit in group.credits)
    return Group(item.domain, prompt, credits)
