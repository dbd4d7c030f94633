"""Reads a change to files out of an answer: a unified diff, or whole files, each behind a line `FILE: path`.

An answer is the change and nothing behind it. Numbers in a diff's headers may be off, its context may not: the lines
that a hunk takes out have to stand in the file at exactly one place, or at the one that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from train.verifiers.answers import MAX_ANSWER_CHARS, final_block

MAX_FILES: Final = 12
FORMAT: Final = (
    "Answer with a unified diff, or with every changed file as a whole: a line `FILE: path`, "
    "then its content in a fenced block; nothing else."
)
_WHOLE: Final = re.compile(
    r"^FILE: (?P<path>\S+)[ \t]*\n```[\w+-]*\n(?P<content>.*?)^```[ \t]*$\n?", re.M | re.S
)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_PATH: Final = re.compile(r"[a-z_]+(?:/[a-z_]+)*\.py")

Files = Mapping[str, str]


class MalformedError(ValueError):
    """An answer holds no change that could be made; the message says why."""


@dataclass
class _Hunk:
    line: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def edited(files: Files, text: str) -> dict[str, str]:
    """The files after the change that an answer describes.

    Raises:
        MalformedError: it describes none, or one that does not fit.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise MalformedError("too long")
    whole = list(_WHOLE.finditer(text))
    changed = _whole(files, text, whole) if whole else _patched(files, final_block(text))
    if len(changed) > MAX_FILES or any(not _PATH.fullmatch(path) for path in changed):
        raise MalformedError("too many files, or one of a strange name")
    if changed == dict(files):
        raise MalformedError("nothing is changed")
    return changed


def _whole(files: Files, text: str, found: Sequence[re.Match[str]]) -> dict[str, str]:
    between = _WHOLE.sub("", text[found[0].start() :])
    if between.strip():
        raise MalformedError("there is something behind the files")
    return {**files, **{match["path"]: match["content"] for match in found}}


def _patched(files: Files, diff: str) -> dict[str, str]:
    changed = dict(files)
    for old_path, new_path, hunks in _sections(diff.splitlines()):
        lines = [] if old_path is None else changed.get(old_path, "").splitlines()
        if old_path is not None and old_path not in changed:
            raise MalformedError(f"there is no file {old_path}")
        for hunk in reversed(hunks):
            place = _place(lines, hunk)
            lines[place : place + len(hunk.old)] = hunk.new
        if old_path is not None:
            del changed[old_path]
        if new_path is not None:
            changed[new_path] = "".join(f"{line}\n" for line in lines)
    return changed


def _sections(lines: Sequence[str]) -> list[tuple[str | None, str | None, list[_Hunk]]]:
    """Old path, new path and hunks of each file; None for /dev/null."""
    sections: list[tuple[str | None, str | None, list[_Hunk]]] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.startswith("--- ") and place + 1 < len(lines) and lines[place + 1].startswith("+++ "):
            sections.append((_path(line), _path(lines[place + 1]), []))
            place += 2
            continue
        if sections and (header := _HUNK.fullmatch(line)):
            sections[-1][2].append(_Hunk(int(header[1])))
        elif sections and sections[-1][2] and line[:1] in {" ", "+", "-", ""}:
            hunk = sections[-1][2][-1]
            if line[:1] != "+":
                hunk.old.append(line[1:])
            if line[:1] != "-":
                hunk.new.append(line[1:])
        elif not line.startswith(("diff --git ", "index ", "new file mode ")):
            raise MalformedError(f"{line[:40]!r} is no part of a diff")
        place += 1
    if not sections or not all(hunks for _, _, hunks in sections):
        raise MalformedError("no diff")
    return sections


def _path(header: str) -> str | None:
    path = header[4:].split("\t")[0].strip()
    return None if path == "/dev/null" else re.sub(r"^[ab]/", "", path)


def _place(lines: Sequence[str], hunk: _Hunk) -> int:
    """Where a hunk's old lines stand."""
    if not hunk.old:
        return min(hunk.line, len(lines))
    size = len(hunk.old)
    places = [
        place for place in range(len(lines) - size + 1) if list(lines[place : place + size]) == hunk.old
    ]
    if hunk.line - 1 in places:
        return hunk.line - 1
    if len(places) != 1:
        raise MalformedError(f"a hunk fits in {len(places)} places")
    return places[0]
