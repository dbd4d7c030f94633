"""How episodes with tools went, beside what came of them: calls, errors and the end, against the reference's way.

Verdicts have parts of their own, which say how one episode was judged; these are measured in the same way for every
domain with an environment, from the transcript and the reference alone. Calls are done again, for tools are
deterministic, so an error is what the tool calls one, and not what a text says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Self

from train.domains.base import Item
from train.tools.toolset import BoundedToolset
from train.transcript import JsonValue, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How one episode went."""

    num_calls: int
    """Refused ones included; a turn that means to call and is not in the form makes none."""
    num_reference_calls: int
    is_right: bool
    has_error: bool
    """Whether a call within the budget failed, or a turn was not in the form."""
    is_stopped: bool
    """Whether it ended by itself, with an answer, within the budget, and did not call on when the goal was reached.

    The latter can be told where the task changes the tools' state: once the state is the one that the reference leaves,
    at most as many calls may follow as in the reference. Elsewhere an end by itself is all that is asked."""

    @classmethod
    def of(
        cls, item: Item, reference: Transcript, transcript: Transcript, *, is_right: bool, is_ended: bool
    ) -> Self:
        """Of an item with an environment.

        Args:
            item: which.
            reference: its domain's.
            transcript: of the episode.
            is_right: by the verdict.
            is_ended: whether the last turn came to its own end, rather than to a limit of length or time.
        """
        assert item.environment is not None, "an item without tools has no course"
        done, wanted = _walked(item, transcript), _walked(item, reference)
        most = item.environment.max_calls
        return cls(
            num_calls=len(done.is_ok),
            num_reference_calls=len(wanted.is_ok),
            is_right=is_right,
            has_error=not all(done.is_ok[:most]) or _has_malformed_turn(transcript),
            is_stopped=is_ended
            and bool(transcript.answer.strip())
            and len(done.is_ok) <= most
            and not _is_overrun(done.states, wanted.states),
        )

    @property
    def efficiency(self) -> float:
        """The reference's calls to those made; 1 where there were no more."""
        return min(1.0, self.num_reference_calls / self.num_calls) if self.num_calls else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessScore:
    """Of a domain's episodes."""

    num_episodes: int
    success_share: float
    """Episodes that passed."""
    mean_calls: float
    mean_reference_calls: float
    efficiency: float | None
    """Mean over the episodes that passed; None where none did."""
    num_with_error: int
    recovered_share: float | None
    """Of the episodes with an error, those that passed all the same; None where none had one."""
    stopped_share: float
    """Episodes that stopped in time."""

    @classmethod
    def of(cls, courses: Sequence[Course]) -> Self:
        """Of at least one."""
        right = [course for course in courses if course.is_right]
        with_error = [course for course in courses if course.has_error]
        return cls(
            num_episodes=len(courses),
            success_share=len(right) / len(courses),
            mean_calls=fmean(course.num_calls for course in courses),
            mean_reference_calls=fmean(course.num_reference_calls for course in courses),
            efficiency=fmean(course.efficiency for course in right) if right else None,
            num_with_error=len(with_error),
            recovered_share=fmean(course.is_right for course in with_error) if with_error else None,
            stopped_share=fmean(course.is_stopped for course in courses),
        )


@dataclass(frozen=True, slots=True)
class _Walk:
    """A transcript's calls, done again."""

    is_ok: tuple[bool, ...]
    states: tuple[Mapping[str, Any], ...]
    """Before the first call and after each, without what may be left as anything."""


def _walked(item: Item, transcript: Transcript) -> _Walk:
    assert item.environment is not None, "an item without tools has no calls"
    # a tool task names members of states that do not count, such as a number of requests
    named: Any = item.data.get("ignored", ())
    ignored, toolset = frozenset(named), BoundedToolset.of(item.environment)
    states, is_ok = [_counting(toolset.state(), ignored)], []
    for message in transcript.messages:
        for call in message.calls:
            is_ok.append(toolset.call(call).is_ok)
            states.append(_counting(toolset.state(), ignored))
    return _Walk(tuple(is_ok), tuple(states))


def _counting(state: Mapping[str, JsonValue], ignored: frozenset[str]) -> dict[str, Any]:
    tools: Mapping[str, Any] = state
    return {
        tool: {name: value for name, value in members.items() if name not in ignored}
        for tool, members in tools.items()
    }


def _is_overrun(done: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Whether more calls follow the goal than in the reference; False where that cannot be told."""
    goal = wanted[-1]
    if goal == wanted[0] or goal not in done:
        return False
    return len(done) - done.index(goal) > len(wanted) - wanted.index(goal)


def _has_malformed_turn(transcript: Transcript) -> bool:
    """Whether a turn without calls was answered by a tool: it meant to call."""
    return any(
        one.role == "assistant" and not one.calls and other.role == "tool"
        for one, other in pairwise(transcript.messages)
    )
