"""Appointments in a calendar that is partly full."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import PEOPLE, TOPICS
from train.tools.calendar import CLOSES, DAYS, OPENS, clock, minutes
from train.transcript import ToolCall

QUARTER: Final = 15


class AppointmentsDomain(ToolDomain):
    """Level 0 books the first free time of a day, 1 of the first day that has one, 2 cancels something before."""

    name: ClassVar[str] = "tool_calendar"
    description: ClassVar[str] = "Book and cancel appointments; checked by the calendar at the end."

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        days = sorted(rng.sample(range(len(DAYS)), 1 + level))
        events = [event for day in days for event in _filled(rng, DAYS[day], is_full=day != days[-1])]
        for id, event in enumerate(events, 1):
            event["id"] = id
        title, length = f"Talk with {rng.choice(PEOPLE)}", QUARTER * rng.randrange(2, 7)
        before: tuple[ToolCall, ...] = ()
        told = ""
        standing = events
        if level == 2:
            gone = rng.choice(events)
            standing = [event for event in events if event is not gone]
            before = (calling("calendar_cancel", id=gone["id"]),)
            told = f"Cancel {gone['title']} on {gone['day']}. Then "
        names = [DAYS[day] for day in days]
        day, start = _first_free(standing, names, length)
        booking = calling(
            "calendar_book", title=title, day=day, start=clock(start), end=clock(start + length)
        )
        where = (
            f"on {names[0]}" if level == 0 else f"on the first of {', '.join(names)} on which there is time"
        )
        book = "book" if told else "Book"
        return ToolTask(
            prompt=f'{told}{book} "{title}" for {length} minutes {where}, as early as possible between '
            f"{clock(OPENS)} and {clock(CLOSES)}. Answer with the day and the time that it begins, such as "
            "Friday 13:45.",
            tools={"calendar": {"events": events}},
            turns=one_by_one(*(calling("calendar_list", day=name) for name in names), *before, booking),
            answer=f"{day} {clock(start)}",
        )


def _filled(rng: random.Random, day: str, *, is_full: bool) -> list[dict[str, Any]]:
    """A day with appointments and gaps. One that is not full has its last hour and a half free."""
    events: list[dict[str, Any]] = []
    closes = CLOSES if is_full else CLOSES - 6 * QUARTER
    at = OPENS + QUARTER * rng.randrange(2)
    while at < closes:
        end = min(closes, at + QUARTER * rng.randrange(2, 9))
        title = f"{rng.choice(TOPICS).capitalize()} with {rng.choice(PEOPLE)}"
        if all(title != event["title"] for event in events):
            events.append({"title": title, "day": day, "start": clock(at), "end": clock(end)})
        at = end + QUARTER * rng.choice((0, 1, 2) if is_full else (0, 1, 2, 3, 4, 6))
    return events


def _first_free(events: list[dict[str, Any]], days: list[str], length: int) -> tuple[str, int]:
    """Day and minute."""
    for day in days:
        busy = [(minutes(event["start"]), minutes(event["end"])) for event in events if event["day"] == day]
        for start in range(OPENS, CLOSES - length + 1, QUARTER):
            if all(end <= start or start + length <= begin for begin, end in busy):
                return day, start
    raise AssertionError("the last day has an hour and a half free in the end")


DOMAIN: Final[Domain] = AppointmentsDomain()
