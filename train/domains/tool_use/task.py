"""What domains of tool use share: a task is drawn with the calls that do it, and judged by the state they leave.

A verdict replays the calls, for tools are deterministic: a state that is only claimed counts for nothing. Right is who
leaves the state that the reference leaves and answers as it does. Calls beyond the reference's cost a little
(`price`), and the state without the answer is worth half where it had to be changed.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from train.domains.base import Environment, Family, Item, Verdict
from train.domains.drawn import is_text
from train.domains.tool_use.conduct import conduct
from train.seeds import seed_of
from train.tools.replay import performed, replayed
from train.transcript import JsonValue, ToolCall, Transcript
from train.verifiers.answers import final_answer, is_number

LEAST_RIGHT: Final = 0.5
"""What a right result is worth at least, whatever calls it took."""

Turn = tuple[ToolCall, ...]


class Reading(StrEnum):
    """How an answer is read."""

    NUMBER = "number"
    TEXT = "text"
    ANY = "any"
    """The state is all that counts; something must be answered all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """A task and how it is done."""

    prompt: str
    tools: Mapping[str, Mapping[str, Any]]
    """Initial states, of JSON values."""
    turns: tuple[Turn, ...]
    """The reference's calls."""
    answer: str
    reading: Reading = Reading.TEXT
    ignored: tuple[str, ...] = ()
    """Members of tool states that may be left as anything, such as a count of requests."""


class ToolDomain(ABC):
    """A domain of such tasks."""

    name: ClassVar[str]
    description: ClassVar[str]
    family: ClassVar[Family] = Family.TOOL_USE
    num_levels: ClassVar[int] = 3
    price: ClassVar[float] = 0.02
    """Of each call beyond the reference's."""
    num_spare_calls: ClassVar[int] = 4

    @abstractmethod
    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """A task of this level."""

    def item(self, seed: int, index: int, level: int) -> Item:
        """As `Domain.item`."""
        task = self.draw(random.Random(seed_of(seed, self.name, index, level)), level)
        calls = [call for turn in task.turns for call in turn]
        environment = Environment(task.tools, max_calls=2 * len(calls) + self.num_spare_calls)
        longest = max(
            (sum(len(call.name) + len(call.arguments) for call in turn) for turn in task.turns), default=0
        )
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=task.prompt,
            answer=task.answer,
            data={
                "turns": [[[call.name, call.arguments] for call in turn] for turn in task.turns],
                "goal": dict(performed(environment, task.turns, task.answer).state),
                "reading": task.reading,
                "ignored": list(task.ignored),
            },
            environment=environment,
            max_answer_tokens=max(64, longest),
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """As `Domain.verify`."""
        assert item.environment is not None, "tasks of tool use have tools"
        data: Mapping[str, Any] = item.data
        replay = replayed(item.environment, transcript)
        if dict(transcript.state) != dict(replay.state):
            return Verdict(score=0.0, passed=False, evidence="the state is not what these calls leave")
        ignored = frozenset(data["ignored"])
        is_reached = self.is_reached(_counting(replay.state, ignored), _counting(data["goal"], ignored))
        is_answered = _is_answered(transcript.answer, item.answer, data["reading"])
        expected = [call for turn in data["turns"] for call in turn]
        worth = max(LEAST_RIGHT, 1.0 - self.price * max(0, len(replay.calls) - len(expected)))
        is_done = is_reached and self._changes(item)
        return Verdict(
            score=worth if is_reached and is_answered else LEAST_RIGHT * is_done,
            passed=is_reached and is_answered,
            parts={
                "state": float(is_done or (is_reached and is_answered)),
                "answer": float(is_answered),
                **conduct(transcript, replay, expected),
            },
            evidence=_evidence(is_reached, is_answered),
        )

    def reference(self, item: Item) -> Transcript:
        """As `Domain.reference`."""
        assert item.environment is not None, "tasks of tool use have tools"
        data: Mapping[str, Any] = item.data
        turns = tuple(tuple(ToolCall(*call) for call in turn) for turn in data["turns"])
        return performed(item.environment, turns, item.answer)

    def is_reached(self, state: Mapping[str, Any], goal: Mapping[str, Any]) -> bool:
        """Whether a state is as good as the reference's; by default, whether it is the same."""
        return state == goal

    @staticmethod
    def _changes(item: Item) -> bool:
        """Whether the task asks for a change."""
        assert item.environment is not None, "tasks of tool use have tools"
        data: Mapping[str, Any] = item.data
        ignored = frozenset(data["ignored"])
        beginning = replayed(item.environment, Transcript(())).state
        return _counting(beginning, ignored) != _counting(data["goal"], ignored)


def calling(name: str, /, **arguments: JsonValue) -> ToolCall:
    """A call with these arguments."""
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def one_by_one(*calls: ToolCall) -> tuple[Turn, ...]:
    """A turn for each call."""
    return tuple((call,) for call in calls)


def _counting(state: Mapping[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    """The members of a state that count."""
    return {
        tool: {name: value for name, value in members.items() if name not in ignored}
        for tool, members in state.items()
    }


def _is_answered(said: str, expected: str, reading: str) -> bool:
    text = final_answer(said)
    if reading == Reading.ANY:
        return bool(text)
    return is_number(text, Fraction(expected)) if reading == Reading.NUMBER else is_text(text, expected)


def _evidence(is_reached: bool, is_answered: bool) -> str:
    if is_reached and is_answered:
        return ""
    return "; ".join(
        said
        for said, holds in (
            ("the tools are not as they should be in the end", not is_reached),
            ("the answer is not right", not is_answered),
        )
        if holds
    )
