"""Calls a function of untrusted code in the sandbox and brings back what it returned.

What a call should return never enters the sandbox: values come out as JSON and are compared here. So a solution may
read every file, print what it likes, exit early or rewrite the interpreter around itself: to be taken for right, it has
to say the right values, for inputs that no prompt shows. Results stand on one line behind a mark that is drawn for each
run; where that line is missing, or is not the only one, nothing was called, and nothing called is nothing passed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from train.sandbox.limits import Case, Ended, Limits, Run
from train.sandbox.run import run_cases
from train.transcript import JsonValue

CALLER: Final = "_caller.py"
PROGRAM: Final = r"""
import json, os, sys
orders = json.loads(sys.stdin.buffer.read())
results, mark = os.dup(1), orders.pop("mark").encode()
os.dup2(2, 1)  # what the code prints goes to standard error
sys.path.insert(0, os.getcwd())
text = os.getcwd() + os.sep

def story(error):
    import traceback
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    lines = [line for line in lines if "_caller.py" not in line and "importlib" not in line]
    return "".join(lines).replace(text, "")[-1500:]

def called(function, arguments):
    try:
        value = function(*arguments)
    except Exception as error:
        return {"raised": story(error)}
    try:
        return {"value": json.loads(json.dumps(value))}
    except Exception:
        return {"raised": f"it returned a {type(value).__name__}, which is no plain value"}

try:
    __import__(orders["module"])
    function = getattr(sys.modules[orders["module"]], orders["function"])
except Exception as error:
    answer = {"failure": story(error)}
else:
    answer = {"results": [called(function, arguments) for arguments in orders["calls"]]}
line = memoryview(b"\n" + mark + json.dumps(answer).encode() + b"\n")
while line:
    line = line[os.write(results, line):]
os._exit(0)
"""
LIMITS: Final = Limits(wall_s=6.0, cpu_s=4)


@dataclass(frozen=True, slots=True)
class Target:
    """A function, and what it is to be called with."""

    module: str
    function: str
    calls: Sequence[Sequence[JsonValue]]
    """The arguments of each call."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one call came to."""

    value: JsonValue
    raised: str
    """The traceback; empty where it returned."""


@dataclass(frozen=True, slots=True)
class Calls:
    """What all calls of a target came to."""

    results: tuple[Result, ...]
    """One for each call, or none at all."""
    failure: str
    """Why there are none; empty where there are."""


def call(files: Mapping[str, str], targets: Sequence[Target], limits: Limits = LIMITS) -> list[Calls]:
    """Call each target on a fresh copy of the files, all in one start of the sandbox.

    Raises:
        UnavailableError: nothing isolates here, so nothing was run.
    """
    mark = secrets.token_hex(16)
    cases = [
        Case(
            ["python3", "-I", "-S", CALLER],
            json.dumps(
                {
                    "mark": mark,
                    "module": one.module,
                    "function": one.function,
                    "calls": list(map(list, one.calls)),
                }
            ),
        )
        for one in targets
    ]
    runs = run_cases({**files, CALLER: PROGRAM}, cases, limits)
    return [_calls(run, mark, len(one.calls)) for run, one in zip(runs, targets, strict=True)]


def is_same(given: JsonValue, expected: JsonValue, *, tolerance: float = 1e-6) -> bool:
    """Whether a value is the one expected, type included; floats to a share of their size, be they given as ints."""
    if isinstance(expected, float):
        if isinstance(given, bool) or not isinstance(given, int | float):
            return False
        return abs(given - expected) <= tolerance * max(1.0, abs(expected))
    if isinstance(expected, list) and isinstance(given, list):
        return len(given) == len(expected) and all(
            is_same(one, other, tolerance=tolerance) for one, other in zip(given, expected, strict=True)
        )
    return type(given) is type(expected) and given == expected


def _calls(run: Run, mark: str, num_calls: int) -> Calls:
    marked = [line[len(mark) :] for line in run.stdout.split("\n") if line.startswith(mark)]
    answer = _read(marked[0]) if len(marked) == 1 else {}
    results = answer.get("results")
    if isinstance(results, list) and len(results) == num_calls:
        return Calls(tuple(map(_result, results)), "")
    return Calls((), str(answer.get("failure") or _ending(run)))


def _result(found: Any) -> Result:
    if isinstance(found, dict) and "value" in found:
        return Result(found["value"], "")
    return Result(None, str(found.get("raised") if isinstance(found, dict) else "") or "no result")


def _read(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):  # the code wrote it, not the caller
        return {}
    return answer if isinstance(answer, dict) else {}


def _ending(run: Run) -> str:
    """Why no results came."""
    if run.ended is Ended.EXITED:
        return f"it ended the program before its results were there {run.stderr[-300:]}".strip()
    return "it ran out of time" if run.ended is Ended.TIMEOUT else "it was stopped: too much time or memory"
