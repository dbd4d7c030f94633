"""Runs a command on files in a sandbox. What the code does is a `Run`; that it cannot be isolated is an error.

    run = run_code({"main.py": source}, ["python3", "main.py"], stdin="3 4\\n")
    runs = run_cases({"main.py": source}, [Case(["python3", "main.py"], stdin=text) for text in inputs])

Several cases in one call share the start of the supervisor, not a directory: each begins with the files as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from train.sandbox.jail import run_in
from train.sandbox.limits import Case, Limits, Run
from train.sandbox.probe import isolation

DEFAULT_LIMITS: Final = Limits()


def run_code(
    files: Mapping[str, bytes | str],
    argv: Sequence[str],
    stdin: bytes | str = b"",
    limits: Limits = DEFAULT_LIMITS,
) -> Run:
    """Run one command in a fresh directory that holds the files; it is gone afterwards.

    Raises:
        UnavailableError: nothing isolates here, so nothing was run.
        ValueError: a file's name leads out of the directory.
    """
    return run_cases(files, [Case(argv, stdin)], limits)[0]


def run_cases(
    files: Mapping[str, bytes | str], cases: Sequence[Case], limits: Limits = DEFAULT_LIMITS
) -> list[Run]:
    """Run each case, one after another, each under the limits and in a fresh directory of its own.

    Raises:
        UnavailableError: nothing isolates here, so nothing was run.
        ValueError: a file's name leads out of the directory.
    """
    return run_in(isolation(), files, cases, limits) if cases else []
