"""What is learned by heart: reference answers, in each mode where answers have modes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from train.batch import Credit, Group
from train.credit import by_heart
from train.domains.base import Environment, Item
from train.modes import solutions
from train.parts import Parts
from train.rollouts.rollout import Rollout, Span, StopReason
from train.rollouts.tool_calls import written
from train.tools.toolset import BoundedToolset
from train.transcript import Message


def demonstrations(items: Iterable[Item], parts: Parts, *, has_modes: bool) -> list[Group]:
    """A group for each item: its answer, or its answers in each mode behind one prompt."""
    return [_demonstration(item, parts, has_modes=has_modes) for item in items]


def _demonstration(item: Item, parts: Parts, *, has_modes: bool) -> Group:
    codec, domain = parts.codec, parts.domains[item.domain]
    if item.environment is not None:
        return _in_turns(item, item.environment, parts)
    prompt = codec.prompt([Message("user", item.prompt)])
    answers = solutions(codec, domain, item) if has_modes else (codec.answer(domain.reference(item).answer),)
    groups = [by_heart(item.domain, prompt, answer) for answer in answers]
    credits: tuple[Credit, ...] = tuple(credit for group in groups for credit in group.credits)
    return Group(item.domain, prompt, credits)


def _in_turns(item: Item, environment: Environment, parts: Parts) -> Group:
    """The reference's turns are learned, the tools' results between them are given."""
    codec = parts.codec
    tools = BoundedToolset.of(environment).schemas()
    prompt = codec.prompt([Message("user", item.prompt)], tools)
    spans, weights = [Span(prompt)], []
    messages = parts.domains[item.domain].reference(item).messages
    for is_result, turns in groupby(messages, lambda message: message.role == "tool"):
        for tokens in [codec.reply(list(turns))] if is_result else [codec.answer(written(m)) for m in turns]:
            spans.append(Span(tokens))
            weights += [0.0 if is_result else 1.0] * len(tokens)
    credit = Credit(Rollout(tuple(spans), StopReason.END), (0.0,) * len(weights), tuple(weights))
    return Group(item.domain, prompt, (credit,))
