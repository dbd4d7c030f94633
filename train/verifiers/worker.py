"""`python -m train.verifiers.worker PARENT`: a process that runs verifiers, one call at a time, until it is killed.

It is started by `train.verifiers.process` and speaks with it over its own standard input and output in frames: four
bytes of length, big-endian, then the payload. Requests are pickles from a process that is trusted; replies are
JSON, for a verifier that went wrong is not. Whatever a verifier prints goes to standard error. What it raises becomes
an error with a class, never a value.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import json
import math
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO, Any, Final

from train.domains.base import Domain, ErrorClass, Item, Verdict
from train.sandbox.errors import UnavailableError
from train.transcript import JsonValue, Transcript

LENGTH_BYTES: Final = 4
PR_SET_PDEATHSIG: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """The first frame: what the process is to be like."""

    path: tuple[str, ...]
    """`sys.path` of the parent, so that it finds what the parent finds."""
    warm: tuple[str, ...]
    """Modules to import before the first call."""
    max_memory_bytes: int
    """Of address space; beyond it an allocation fails, and the call with it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One call."""

    target: str
    """`module:function`; it returns JSON."""
    args: tuple[Any, ...]


def verify(item: Item, transcript: Transcript) -> dict[str, JsonValue]:
    """What the item's domain makes of a transcript; the target that a pool calls for it."""
    from train.domains import catalog

    return verify_by(catalog.get(item.domain), item, transcript)


def verify_by(domain: Domain, item: Item, transcript: Transcript) -> dict[str, JsonValue]:
    """The domain's verdict as JSON.

    Raises:
        ValueError: the verdict is outside of what a verdict may be.
    """
    verdict = domain.verify(item, transcript)
    scores = (verdict.score, *verdict.parts.values())
    if not all(math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ValueError(
            f"{domain.name} gave a score outside of [0, 1]: {verdict.score}, {dict(verdict.parts)}"
        )
    return as_json(verdict)


def as_json(verdict: Verdict) -> dict[str, JsonValue]:
    """A verdict as a reply carries it."""
    return {
        "score": float(verdict.score),
        "passed": bool(verdict.passed),
        "parts": {name: float(score) for name, score in verdict.parts.items()},
        "evidence": verdict.evidence,
        "error": verdict.error,
    }


def main(argv: list[str]) -> None:
    """Serve until standard input ends or the parent does."""
    _die_with(int(argv[0]))
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _prepare(pickle.loads(read_frame(requests) or b""))  # noqa: S301  from the parent
    write_frame(replies, b"{}")
    while (frame := read_frame(requests)) is not None:
        write_frame(replies, json.dumps(_reply(pickle.loads(frame))).encode())  # noqa: S301  from the parent


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next payload; None where the stream has ended."""
    length = stream.read(LENGTH_BYTES)
    return stream.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else None


def write_frame(stream: IO[bytes], payload: bytes) -> None:
    """Send a payload now."""
    stream.write(len(payload).to_bytes(LENGTH_BYTES, "big") + payload)
    stream.flush()


def _die_with(parent: int) -> None:
    """End when the thread that started this process does: a busy verifier would never see its input end."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the pool has ended already")


def _prepare(setup: Setup) -> None:
    sys.path[:] = setup.path
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = setup.max_memory_bytes if hard == resource.RLIM_INFINITY else min(hard, setup.max_memory_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for module in setup.warm:
        importlib.import_module(module)


def _reply(request: Request) -> dict[str, JsonValue]:
    try:
        value = _function(request.target)(*request.args)
        json.dumps(value)
    except (UnavailableError, ImportError) as error:
        return _failed(ErrorClass.UNAVAILABLE, error)
    except Exception as error:  # noqa: BLE001  the boundary: a verifier may raise anything, and none of it is a reward
        return _failed(ErrorClass.CRASHED, error)
    return {"value": value}


def _failed(error_class: ErrorClass, error: Exception) -> dict[str, JsonValue]:
    return {"error": error_class, "type": type(error).__name__, "message": str(error)[:2000]}


def _function(target: str) -> Callable[..., JsonValue]:
    module, _, name = target.partition(":")
    function: Callable[..., JsonValue] = vars(importlib.import_module(module))[name]
    return function


if __name__ == "__main__":
    # As a module of its name, so that what it unpickles is of the classes that the parent knows.
    from train.verifiers import worker

    worker.main(sys.argv[1:])
