"""Why an engine's process ended, in words that an operator can act on."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    (
        r"bad_alloc|out of memory|(failed|unable) to allocate|cannot allocate memory",
        "there is not enough memory: lower the tier's engine.slots or engine.context_tokens, or take a smaller model",
    ),
    (
        r"couldn't bind|address already in use",
        "another program took the port first; the next start takes another",
    ),
    (
        r"unknown model architecture|unsupported model",
        "this llama.cpp does not know the model's architecture: upgrade xllamacpp, or name a newer llama-server",
    ),
    (
        r"failed to load model|invalid magic|tensor data is not within|failed to read",
        "the model file cannot be loaded: check it with `tierwise registry verify`, or take a fresh copy",
    ),
    (r"No module named 'xllamacpp'", "the embedded engine is not installed: pip install xllamacpp"),
    (
        r"error: (invalid|unknown) argument",
        "llama-server does not know an argument: upgrade it, or see engine.binary_args",
    ),
    (r"error while loading shared libraries", "a library of llama-server's is missing on this machine"),
)
"""What an engine's last lines may hold → what it means. The first that fits counts."""

SIGNALS: Final = {
    signal.SIGKILL: "by an operator, or by the kernel because memory ran out: see `dmesg`, lower engine.slots",
    signal.SIGILL: "the CPU lacks an instruction that the engine was built for: name a llama-server built here",
    signal.SIGSEGV: "the engine has a fault: upgrade it, and report the log",
    signal.SIGABRT: "the engine has a fault: upgrade it, and report the log",
}


def describe_end(returncode: int | None, last_lines: Sequence[str]) -> str:
    """How the process ended, what that means where it is known, and the last that it said."""
    words = [_how(returncode)]
    if remedy := _remedy(returncode, last_lines):
        words.append(f": {remedy}")
    if last_lines:
        words.append("; it last said:\n" + "\n".join(f"  {line}" for line in last_lines))
    return "".join(words)


def _how(returncode: int | None) -> str:
    if returncode is None:
        return "still running"
    if returncode < 0:
        return f"killed by {_signal_name(-returncode)}"
    return f"ended with status {returncode}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"


def _remedy(returncode: int | None, last_lines: Sequence[str]) -> str | None:
    said = "\n".join(last_lines)
    for pattern, remedy in KNOWN:
        if re.search(pattern, said, re.IGNORECASE):
            return remedy
    return SIGNALS.get(signal.Signals(-returncode)) if returncode in {-number for number in SIGNALS} else None
