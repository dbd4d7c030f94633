"""What was asked of a gateway, as prompts to train on: JSON lines of the ledger's decisions, as it exports them.

    tierwise ledger export --out served.jsonl --prompts

or, where nothing was served yet, as somebody made them up: `tierwise route prompts`. Either is read plain or packed.

Prompts are in a ledger only where its operator said so (`[ledger] store_prompts = true`), and in an export only with
`--prompts`; without them there is nothing to read, and that is said. Of a line, the members `endpoint`, `status` and
`prompt` of `serving.ledger.records.DecisionRecord` are read. A prompt is the user's turns as one text, without system
text, answers and tools. A line with a prompt and neither of the others is one that nobody asked yet.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, Final

from distill.calibration import Prompt

SERVED: Final = "served"
"""The domain of these prompts."""
EXPORT: Final = "tierwise ledger export --out FILE --prompts"
ANSWERED: Final = 200
EMBEDDINGS: Final = "embeddings"
"""The endpoint whose texts ask for no answer."""
DECIDED: Final = frozenset({"endpoint", "status"})
"""Members by which a decision is known."""
MADE: Final = {"endpoint": "chat", "status": ANSWERED}
"""What a prompt that nobody asked yet is taken for."""


class TrafficError(Exception):
    """An export cannot be read, or has no prompts; the message names the remedy."""


def served_prompts(path: Path, *, without: Set[str] = frozenset()) -> list[Prompt]:
    """The prompts of requests that were answered, in their order; one that was asked often counts once.

    Args:
        path: of the export.
        without: texts that are left out: what evaluations hold out may have been asked too.

    Raises:
        TrafficError: it cannot be read, a line is none of an export, or no line has a prompt.
    """
    texts: dict[str, None] = {}
    num_lines = num_stored = 0
    for number, line in enumerate(_lines(path), start=1):
        if line.keys().isdisjoint(DECIDED) and line.get("prompt"):
            line = MADE | line
        if DECIDED - line.keys():
            raise TrafficError(f"{path}:{number} is no decision; write the file with `{EXPORT}`")
        if "prompt" not in line:
            raise TrafficError(f"{path} was exported without prompts; write it again with `{EXPORT}`")
        text = line["prompt"]
        num_lines += 1
        num_stored += bool(text)
        is_answered = line["status"] == ANSWERED and line["endpoint"] != EMBEDDINGS
        if text and is_answered and text not in without:
            texts[str(text)] = None
    if not num_stored:
        raise TrafficError(
            f"{path}: none of {num_lines} requests has its prompt. A gateway stores prompts only where its operator "
            f"says so: set `store_prompts = true` under [ledger], let it serve, and write it again with `{EXPORT}`"
        )
    return [Prompt(SERVED, text, text) for text in texts]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects. Only a line feed ends a line: what else is taken for a line's end may stand in a prompt."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _members(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        raise TrafficError(f"{path} cannot be read ({error}); write it with `{EXPORT}`") from None


def _members(line: bytes, place: str) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except ValueError as error:  # of bytes that are no UTF-8, too
        raise TrafficError(f"{place} is no JSON ({error}); write one object a line") from None
    if not isinstance(members, dict):
        raise TrafficError(f"{place} is no object; write one object a line")
    return members
