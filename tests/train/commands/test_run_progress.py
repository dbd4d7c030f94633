"""What a person sees of a run that evaluates for long."""

from __future__ import annotations

import io

from rich.console import Console

from train.commands.run_progress import RunProgress
from train.phase import Phase
from train.trainer import Step

FOUND = {"when": "before", "greedy": 0.5, "evaluation": {"domains": []}}


def seen(*, is_terminal: bool) -> str:
    """Of a run that evaluates before its first step, and takes ten."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
    with RunProgress(console) as progress:
        progress.evaluating("before", 480)
        progress.step(Step(Phase.SFT, 0, 0, FOUND))
        for number in range(1, 11):
            progress.step(Step(Phase.SFT, number, 10, {"seconds": 1.0}))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_evaluation_is_announced() -> None:
    """Where nothing can be drawn over, in a line before its table; and steps go on below it."""
    said = seen(is_terminal=False)
    assert said.index("evaluating before: 480 items") < said.index("macro mean") < said.index("sft 10/10")


def test_its_bar_goes_with_its_table() -> None:
    """On a terminal it stands beside the bars, and what is left at the end is the phase's alone."""
    said = seen(is_terminal=True)
    assert "evaluating before: 480 items" in said
    assert "macro mean" in said
    last = said[said.rindex("sft") :]
    assert "evaluating" not in last
    assert "10/10" in last
