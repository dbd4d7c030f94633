"""What was asked of a gateway, as prompts to train on: JSON lines of the ledger's decisions.

Prompts are in a ledger only where its operator said so (`[ledger] store_prompts = true`); without them there is nothing
to read, and that is said. A line needs the members `prompt` and, where there is one, `status` of
`serving.ledger.records.DecisionRecord`; of SQLite's ledger this writes such lines:

    sqlite3 ledger.sqlite "select json_object('prompt', prompt, 'status', status) from decisions" > served.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, Final

from distill.calibration import Prompt

SERVED: Final = "served"
"""The domain of these prompts."""


class TrafficError(Exception):
    """An export cannot be read, or has no prompts; the message names the remedy."""


def served_prompts(path: Path, *, without: Set[str] = frozenset()) -> list[Prompt]:
    """The prompts of requests that were answered, in their order; one that was asked often counts once.

    Args:
        path: of the export.
        without: texts that are left out: what evaluations hold out may have been asked too.

    Raises:
        TrafficError: it cannot be read, a line is no JSON object, or no line has a prompt.
    """
    lines = list(_lines(path))
    stored = [line for line in lines if line.get("prompt")]
    if not stored:
        raise TrafficError(
            f"{path}: none of {len(lines)} requests has its prompt. A gateway stores prompts only where its operator "
            "says so: set `store_prompts = true` under [ledger], let it serve, and export the decisions again"
        )
    texts = dict.fromkeys(
        str(line["prompt"])
        for line in stored
        if line.get("status", 200) == 200 and line["prompt"] not in without
    )
    return [Prompt(SERVED, text, text) for text in texts]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrafficError(f"{path} cannot be read ({error}); name an export of the ledger") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            members = json.loads(line)
        except ValueError as error:
            raise TrafficError(f"{path}:{number} is no JSON ({error}); write one object a line") from None
        if not isinstance(members, dict):
            raise TrafficError(f"{path}:{number} is no object; write one object a line")
        yield members
