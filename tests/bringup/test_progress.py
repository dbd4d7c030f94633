"""Reports: bars on a terminal, whole plain lines elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from serving.bringup.progress import ConsoleReport


def test_plain_lines_are_not_wrapped_or_marked_up() -> None:
    """In a log each thing that happened is one line, however long, with its brackets as they were."""
    out = io.StringIO()
    report = ConsoleReport(Console(file=out, width=40))
    line = "[tiers.full] " + "long " * 30
    report.say(line)
    with report.track("unpacking", 100, "bytes") as done:
        done(50)
    assert out.getvalue().splitlines() == [line, "unpacking"]
    assert not report.is_terminal


def test_a_terminal_gets_a_bar() -> None:
    """On a terminal the bar ends at what was done."""
    out = io.StringIO()
    report = ConsoleReport(Console(file=out, width=80, force_terminal=True))
    with report.track("requantising", 8, "tensors") as done:
        done(8)
    assert report.is_terminal
    assert "8/8" in out.getvalue()
