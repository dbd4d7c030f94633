"""A plan of work on a board: every task in time, nobody twice at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import TOPICS, listed, people
from train.transcript import JsonValue, ToolCall


class BoardDomain(ToolDomain):
    """Tasks that need each other, few workers, an hour by which all must be done. A level is two tasks more."""

    name: ClassVar[str] = "tool_board"
    description: ClassVar[str] = (
        "Assign tasks to workers before a deadline; checked by the board at the end, whichever plan."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        names, workers = rng.sample(TOPICS, 3 + 2 * level), people(rng, 2 + (level > 1))
        tasks: dict[str, dict[str, Any]] = {}
        for place, name in enumerate(names):
            needs: list[str] = rng.sample(names[:place], min(place, rng.choice((0, 1, 1))))
            tasks[name] = {"hours": rng.randrange(1, 6), "needs": needs}
        calls, deadline = _planned(tasks, workers)
        return ToolTask(
            prompt=f"Assign the tasks on the board ({listed(names)}) to workers so that all are done by "
            f"hour {deadline}. "
            "Hours count from 0. Answer with the word done.",
            tools={"board": {"tasks": tasks, "workers": [*workers]}},
            turns=one_by_one(calling("board_list"), *calls),
            answer="done",
            reading=Reading.ANY,
        )

    def is_reached(self, state: Mapping[str, Any], goal: Mapping[str, Any]) -> bool:
        """Any plan is right that is no longer than the reference's; the board itself lets no other error through."""
        return _last_hour(state["board"]["tasks"]) <= _last_hour(goal["board"]["tasks"])


def _planned(tasks: dict[str, dict[str, Any]], workers: list[str]) -> tuple[list[ToolCall], int]:
    """Each task in turn to who is free first."""
    free, ends, calls = dict.fromkeys(workers, 0), dict[str, int](), list[ToolCall]()
    for name, task in tasks.items():
        ready = max((ends[need] for need in task["needs"]), default=0)
        worker = min(workers, key=lambda one: (max(free[one], ready), workers.index(one)))
        start = max(free[worker], ready)
        free[worker] = ends[name] = start + task["hours"]
        arguments: dict[str, JsonValue] = {"task": name, "worker": worker, "start": start}
        calls.append(calling("board_assign", **arguments))
    return calls, max(ends.values())


def _last_hour(tasks: Mapping[str, Mapping[str, Any]]) -> float:
    if any(task["start"] is None for task in tasks.values()):
        return float("inf")
    return float(max(task["start"] + task["hours"] for task in tasks.values()))


DOMAIN: Final[Domain] = BoardDomain()
