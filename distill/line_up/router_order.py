"""What the router thinks of the items, asked of `tierwise route forecast` in a process of its own.

Rooms hand files to each other: this one knows neither the router's models nor the gateway's settings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from distill.line_up.exam import Paper
from distill.line_up.standings import Gains
from train.run_directory import RunError

TIMEOUT_S: Final = 600.0
UP_FIRST: Final = 2.0
"""The gain of a request whose like the router has not seen: in the gateway such go up, before all others here."""


def forecasts(router: str, papers: Sequence[Paper], home: Path) -> list[dict[str, Any]]:
    """A line an item, in order, as `tierwise route forecast` has it.

    Args:
        router: an artifact or its file, `auto`, or `heuristic`, as `router.artifact` of the settings.
        papers: the items.
        home: where the registry lives.

    Raises:
        RunError: the router cannot be used.
    """
    prompts = "".join(json.dumps({"prompt": item.prompt}) + "\n" for paper in papers for item in paper.items)
    argv = [sys.executable, "-P", "-m", "tierwise", "route", "forecast", "-"]
    argv += ["--home", str(home.absolute()), "--set", f"router.artifact={router}"]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            argv, input=prompts, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the router {router} takes longer than {TIMEOUT_S:g} s; ask fewer items") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise RunError(f"the router {router} cannot be asked: {said}; name another with --router, or none")
    return [json.loads(line) for line in done.stdout.splitlines()]


def gains_of(told: Sequence[Mapping[str, Any]], papers: Sequence[Paper]) -> Gains:
    """What the strongest arm gains over the weakest on each item."""
    lines = iter(told)
    return {paper.domain.name: [_gain(next(lines)) for _ in paper.items] for paper in papers}


def _gain(line: Mapping[str, Any]) -> float:
    if not line["is_supported"]:
        return UP_FIRST
    probabilities = list(line["probabilities"].values())  # weakest first
    return float(probabilities[-1] - probabilities[0])
