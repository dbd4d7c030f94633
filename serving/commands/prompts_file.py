"""A file of prompts with known answers: JSON lines of `{domain, level, prompt, answer}`, plain or `.gz`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from router.prompts import Item
from router.prompts_recorded import item_of
from serving.commands.outcomes_file import OutcomesFileError, read_unpacked


class PromptsFileError(Exception):
    """The file cannot be read, or one of its lines; the message names it."""


def read_prompts(path: Path) -> list[Item]:
    """The prompts of a file in its order; one that is there again counts once.

    Raises:
        PromptsFileError: it cannot be read, a line is no prompt with an answer, a prompt has two answers, or there
            is none at all.
    """
    try:
        data = read_unpacked(path)
    except OutcomesFileError as error:  # of the bytes alone, so its words fit
        raise PromptsFileError(str(error)) from None
    first_of: dict[str, tuple[int, Item]] = {}
    for number, item in _items(path, data):
        line, known = first_of.setdefault(item.prompt_id, (number, item))
        if known.reference != item.reference:
            raise PromptsFileError(f"{path}:{number}: line {line} has the same prompt with another answer")
    if not first_of:
        raise PromptsFileError(f"{path}: no prompts in it")
    return [item for _, item in first_of.values()]


def _items(path: Path, data: bytes) -> Iterator[tuple[int, Item]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            members = orjson.loads(line)
            if not isinstance(members, dict):
                raise ValueError("not an object")
            yield number, item_of(members)
        except ValueError as error:  # orjson's own is one
            raise PromptsFileError(f"{path}:{number}: no prompt: {error}") from None
