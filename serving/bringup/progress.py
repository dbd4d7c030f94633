"""What is said while the model is brought in: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

Unit = Literal["bytes", "tensors", "texts"]


class Report(Protocol):
    """Whoever wants to know how far it is."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches, so that pip may draw its own bar."""
        ...

    def say(self, line: str) -> None:
        """One thing that happened."""
        ...

    def track(self, label: str, total: int, unit: Unit) -> AbstractContextManager[Callable[[int], None]]:
        """Something that takes a while; call what it gives with how much is done."""
        ...


class LineReport:
    """Reports a line a thing, without bars."""

    is_terminal = False

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    @contextmanager
    def track(self, label: str, total: int, unit: Unit) -> Iterator[Callable[[int], None]]:
        """A line at the start, and one at each quarter."""
        self.say(label)
        quarters = [total * part // 4 for part in (1, 2, 3)]

        def done(amount: int) -> None:
            if quarters and amount >= quarters[0]:
                quarters.pop(0)
                self.say(f"{label}: {amount / total:.0%}")

        yield done


class ConsoleReport:
    """Reports to a rich console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def is_terminal(self) -> bool:
        """Whether the console is a terminal."""
        return self._console.is_terminal

    def say(self, line: str) -> None:
        """Print the line as it is, unwrapped."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def track(self, label: str, total: int, unit: Unit) -> Iterator[Callable[[int], None]]:
        """A bar on a terminal, one line elsewhere."""
        if not self.is_terminal:
            self.say(label)
            yield lambda done: None
            return
        amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(label, total=total)
            yield lambda done: progress.update(task, completed=done)
