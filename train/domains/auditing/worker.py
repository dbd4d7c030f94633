"""What an audit asks a verifier's worker to do: make items, and judge many answers in one call."""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

from train.domains import catalog
from train.domains.base import Domain, Item
from train.domains.item_json import item_as_json, item_from_json, transcript_as_json, transcript_from_json
from train.transcript import JsonValue, Transcript
from train.verifiers.worker import verify_by


@runtime_checkable
class Marked(Protocol):
    """A domain that judges through somebody else's scorer, and shows what that says."""

    def marks(self, item: Item, transcript: Transcript) -> float:
        """In [0, 1]; a constant answer must not be paid here either."""
        ...


def generate(package: str, name: str, seed: int, num_items: int, budget_s: float) -> dict[str, JsonValue]:
    """Items of all levels in turn, with their references, until there are enough or the budget is spent.

    Seconds are of processor time: a busy machine makes no domain slow."""
    domain = catalog.domains(package)[name]
    made: list[JsonValue] = []
    slowest = 0.0
    started = time.process_time()
    for place in range(num_items):
        if place >= 4 * domain.num_levels and time.process_time() - started > budget_s:
            break
        began = time.process_time()
        item = domain.item(seed, place // domain.num_levels, place % domain.num_levels)
        slowest = max(slowest, time.process_time() - began)
        made.append(
            {"item": item_as_json(item), "reference": transcript_as_json(domain.reference(item))},
        )
    return {"made": made, "slowest_s": slowest, "mean_s": (time.process_time() - started) / max(1, len(made))}


def regenerate(package: str, name: str, places: list[list[int]]) -> list[JsonValue]:
    """The items at these (seed, index, level)."""
    domain = catalog.domains(package)[name]
    return [item_as_json(domain.item(seed, index, level)) for seed, index, level in places]


def judge(package: str, name: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[JsonValue]:
    """For each item and transcript: score, marks (the score, where nobody else's scorer is behind it), and what was
    raised, if anything."""
    domain = catalog.domains(package)[name]
    return [_judged(domain, item_from_json(item), transcript_from_json(said)) for item, said in pairs]


def _judged(domain: Domain, item: Item, transcript: Transcript) -> dict[str, JsonValue]:
    started = time.perf_counter()
    try:
        verdict = verify_by(domain, item, transcript)
        score, error = verdict["score"], verdict["error"]
        marks = domain.marks(item, transcript) if isinstance(domain, Marked) else score
        passed = verdict["passed"]
    except Exception as raised:  # noqa: BLE001  what a domain raises is what an audit is there to find
        score, marks, passed, error = 0.0, 0.0, False, f"{type(raised).__name__}: {str(raised)[:200]}"
    return {
        "score": score,
        "marks": marks,
        "passed": passed,
        "error": error,
        "seconds": time.perf_counter() - started,
    }
