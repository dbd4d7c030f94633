"""How a task was gone about, apart from what came of it: parts of a verdict, each in [0, 1]."""

from __future__ import annotations

import json
from collections.abc import Sequence

from train.tools.replay import Replay
from train.transcript import Transcript


def conduct(transcript: Transcript, replay: Replay, expected: Sequence[Sequence[str]]) -> dict[str, float]:
    """Process parts.

    `steps`: the share of the expected calls that were made with success, in their order. `efficiency`: expected calls
    to calls made. `recovery`: of the calls that failed, the share that the next call made good; 1 where none failed.
    `stopped`: whether it came to an answer, rather than to the end of its budget or its words.

    Args:
        expected: [name, arguments] of each call that the reference makes.
    """
    done = [result.is_ok for result in replay.results]
    made = [
        _plain(call.name, call.arguments) for call, is_ok in zip(replay.calls, done, strict=True) if is_ok
    ]
    wanted = [_plain(name, arguments) for name, arguments in expected]
    failed = [place for place, is_ok in enumerate(done) if not is_ok]
    return {
        "steps": _in_order(wanted, made) / len(wanted) if wanted else 1.0,
        "efficiency": min(1.0, (1 + len(wanted)) / (1 + len(done))),
        "recovery": sum(any(done[place + 1 : place + 2]) for place in failed) / len(failed)
        if failed
        else 1.0,
        "stopped": float(bool(transcript.answer.strip())),
    }


def _plain(name: str, arguments: str) -> str:
    """A call as a text that does not depend on the order of members or on blanks."""
    try:
        return f"{name} {json.dumps(json.loads(arguments), sort_keys=True)}"
    except (ValueError, RecursionError):
        return f"{name} {arguments}"


def _in_order(wanted: Sequence[str], made: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(made) + 1)
    for one in wanted:
        diagonal = 0
        for place, other in enumerate(made, 1):
            diagonal, row[place] = (
                row[place],
                diagonal + 1 if one == other else max(row[place], row[place - 1]),
            )
    return row[-1]
