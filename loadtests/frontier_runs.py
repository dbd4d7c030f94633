"""The turns of a frontier: in which order they are taken, and what is kept of each so that a stopped run goes on.

A directory holds `plan.json`, what all turns have in common, `prompts.jsonl`, and a file for each turn that is over.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from loadtests.frontier_load import Answer, Way
from router.prompts import Item


class OtherRunError(Exception):
    """The directory holds another run; the message says in what it differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn: a way, and the part of the prompts that it is asked."""

    number: int
    way: Way
    part: int

    @property
    def file_name(self) -> str:
        """Of what is kept of it."""
        return f"turn-{self.number:03}-{self.way.name}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A turn that is over."""

    way: str
    part: int
    asking_s: float
    """Warm-up included."""
    starting_s: float
    answers: tuple[Answer, ...]


def steps(ways: Sequence[Way], num_parts: int, seed: int) -> list[Step]:
    """Every way in turn for each part of the prompts: in an order that is drawn, and then backwards.

    What slows the machine down from one hour to the next so slows all ways alike.
    """
    order = list(ways)
    random.Random(seed).shuffle(order)
    turns = [(way, part) for part in range(num_parts) for way in (order[::-1] if part % 2 else order)]
    return [Step(number=number, way=way, part=part) for number, (way, part) in enumerate(turns)]


class Kept:
    """The files of a run in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._plan = directory / "plan.json"

    def check(self, plan: Mapping[str, Any]) -> None:
        """Return where the directory holds turns of this run, or none.

        Raises:
            OtherRunError: it holds another run's.
        """
        if not self._plan.exists():
            return
        before, now = orjson.loads(self._plan.read_bytes()), orjson.loads(orjson.dumps(plan))
        for name in now | before:
            if now.get(name) != before.get(name):
                raise OtherRunError(
                    f"{self._directory} holds a run with {name} {_short(before.get(name))}, and this one has "
                    f"{_short(now.get(name))}; name another directory with --resume"
                )

    def begin(self, plan: Mapping[str, Any], items: Sequence[Item]) -> None:
        """Write down what the run is, where no run was begun."""
        if self._plan.exists():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        records = ({"id": item.prompt_id, "prompt": item.prompt, "answer": item.reference} for item in items)
        lines = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
        _write(self._directory / "prompts.jsonl", lines)
        _write(self._plan, orjson.dumps(plan, option=orjson.OPT_INDENT_2))

    def keep(self, step: Step, taken: Taken) -> None:
        """Write a turn down."""
        _write(self._directory / step.file_name, orjson.dumps(asdict(taken)))

    def taken(self, step: Step) -> Taken | None:
        """A turn that was written down; None where it is still to be taken."""
        path = self._directory / step.file_name
        if not path.exists():
            return None
        members = orjson.loads(path.read_bytes())
        answers = tuple(Answer(**answer) for answer in members.pop("answers"))
        return Taken(**members, answers=answers)


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}…"


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, also where the machine goes down."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)
