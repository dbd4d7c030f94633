"""A board of tasks: who does which when. Nobody does two things at once, and nothing begins before what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import plain_copy, record, told
from train.transcript import JsonValue

MAX_HOUR: Final = 1_000

_TASK: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 40}
_HOUR: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 0, "maximum": MAX_HOUR}


@dataclass(slots=True)
class Board:
    """Tasks and those who do them."""

    tasks: dict[str, dict[str, Any]]
    """By name: `hours`, `needs` (names), and `worker` and `start`, both None where it is not placed."""
    workers: list[str]
    name: ClassVar[str] = "board"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("list", "All tasks, and all workers.", record(), is_reading=True),
        Operation(
            "assign",
            "Give a task to a worker, from an hour on; also one that was assigned before.",
            record({"task": _TASK, "worker": _TASK, "start": _HOUR}),
            is_reading=False,
        ),
        Operation("release", "Take a task off the plan.", record({"task": _TASK}), is_reading=False),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`."""
        tasks = plain_copy(state.get("tasks", {}))
        blank: dict[str, Any] = {"needs": [], "worker": None, "start": None}
        return cls(
            {name: {**plain_copy(blank), **task} for name, task in tasks.items()}, [*state.get("workers", ())]
        )

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "list": self._list,
            "assign": self._assign,
            "release": self._release,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"tasks": plain_copy(self.tasks), "workers": [*self.workers]}

    def _list(self) -> ToolResult:
        return told(self.state())

    def _assign(self, task: str, worker: str, start: int) -> ToolResult:
        held = self._held(task)
        if worker not in self.workers:
            raise ToolError(f"there is no worker {worker!r}; there are: {', '.join(self.workers)}")
        end = start + held["hours"]
        self._check_idle(task, worker, start, end)
        self._check_needs(task, start, end)
        held.update(worker=worker, start=start)
        return told(f"{task}: {worker}, hours {start} to {end}")

    def _release(self, task: str) -> ToolResult:
        self._held(task).update(worker=None, start=None)
        return told("released")

    def _check_idle(self, task: str, worker: str, start: int, end: int) -> None:
        for name, other in self.tasks.items():
            if name == task or other["worker"] != worker:
                continue
            if start < other["start"] + other["hours"] and other["start"] < end:
                raise ToolError(
                    f"{worker} does {name} from {other['start']} to {other['start'] + other['hours']}"
                )

    def _check_needs(self, task: str, start: int, end: int) -> None:
        for name in self.tasks[task]["needs"]:
            need = self.tasks[name]
            if need["start"] is None:
                raise ToolError(f"{task} needs {name}, which is not assigned yet")
            if start < need["start"] + need["hours"]:
                raise ToolError(f"{task} needs {name}, which ends at {need['start'] + need['hours']}")
        for name, other in self.tasks.items():
            if task in other["needs"] and other["start"] is not None and other["start"] < end:
                raise ToolError(f"{name} needs {task} and begins at {other['start']}")

    def _held(self, task: str) -> dict[str, Any]:
        if task not in self.tasks:
            raise ToolError(f"there is no task {task!r}; there are: {', '.join(self.tasks)}")
        return self.tasks[task]
