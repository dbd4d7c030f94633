"""A week of one person's appointments, on the quarter hours from 08:00 to 18:00. Nothing overlaps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import plain_copy, record, told
from train.transcript import JsonValue

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
OPENS: Final = 8 * 60
"""Minutes after midnight."""
CLOSES: Final = 18 * 60
MAX_EVENTS: Final = 100

_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):(00|15|30|45)")
_DAY: Final[dict[str, JsonValue]] = {"type": "string", "enum": list(DAYS)}
_TIME: Final[dict[str, JsonValue]] = {"type": "string", "description": "HH:MM, on a quarter hour"}
_ID: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 1}
_TITLE: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 80}


@dataclass(slots=True)
class Calendar:
    """Appointments."""

    events: list[dict[str, Any]]
    """Each with `id`, `title`, `day`, `start` and `end`, in the order of their booking."""
    next_id: int
    name: ClassVar[str] = "calendar"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("list", "The appointments of a day, in order.", record({"day": _DAY}), is_reading=True),
        Operation(
            "book",
            "Make an appointment where the time is free.",
            record({"title": _TITLE, "day": _DAY, "start": _TIME, "end": _TIME}),
            is_reading=False,
        ),
        Operation(
            "move",
            "Give an appointment another time, where that is free.",
            record({"id": _ID, "day": _DAY, "start": _TIME, "end": _TIME}),
            is_reading=False,
        ),
        Operation("cancel", "Remove an appointment.", record({"id": _ID}), is_reading=False),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`."""
        events = plain_copy(state.get("events", []))
        return cls(events, int(state.get("next_id", 1 + max((event["id"] for event in events), default=0))))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "list": self._list,
            "book": self._book,
            "move": self._move,
            "cancel": self._cancel,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"events": plain_copy(self.events), "next_id": self.next_id}

    def _list(self, day: str) -> ToolResult:
        found = sorted(
            (event for event in self.events if event["day"] == day), key=lambda event: event["start"]
        )
        return told([{name: event[name] for name in ("id", "title", "start", "end")} for event in found])

    def _book(self, title: str, day: str, start: str, end: str) -> ToolResult:
        if len(self.events) >= MAX_EVENTS:
            raise ToolError(f"there are {MAX_EVENTS} appointments already")
        self._check_free(day, start, end)
        self.events.append({"id": self.next_id, "title": title, "day": day, "start": start, "end": end})
        self.next_id += 1
        return told({"id": self.next_id - 1})

    def _move(self, id: int, day: str, start: str, end: str) -> ToolResult:
        event = self._held(id)
        self._check_free(day, start, end, besides=id)
        event.update(day=day, start=start, end=end)
        return told("moved")

    def _cancel(self, id: int) -> ToolResult:
        self.events.remove(self._held(id))
        return told("cancelled")

    def _held(self, id: int) -> dict[str, Any]:
        for event in self.events:
            if event["id"] == id:
                return event
        raise ToolError(f"there is no appointment {id}")

    def _check_free(self, day: str, start: str, end: str, besides: int = 0) -> None:
        if not OPENS <= minutes(start) < minutes(end) <= CLOSES:
            raise ToolError(
                f"{start} to {end} is not between {clock(OPENS)} and {clock(CLOSES)}, or ends too early"
            )
        for event in self.events:
            if (
                event["id"] != besides
                and event["day"] == day
                and start < event["end"]
                and event["start"] < end
            ):
                raise ToolError(
                    f"{day} {start} to {end} overlaps {event['title']}, {event['start']} to {event['end']}"
                )


def minutes(time: str) -> int:
    """After midnight.

    Raises:
        ToolError: it is no HH:MM on a quarter hour.
    """
    found = _CLOCK.fullmatch(time)
    if found is None:
        raise ToolError(f"{time[:20]!r} is no time: write HH:MM, on a quarter hour")
    return 60 * int(found[1]) + int(found[2])


def clock(minute: int) -> str:
    """HH:MM of minutes after midnight."""
    return f"{minute // 60:02d}:{minute % 60:02d}"
