"""Search over given documents by the words that they share with a question, rare ones counting more (BM25)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import plain_copy, record, told
from train.transcript import JsonValue

MAX_FOUND: Final = 5
PAGE_CHARS: Final = 2_000
SNIPPET_CHARS: Final = 160
SATURATION: Final = 1.2
"""k₁ of BM25 (Robertson and Zaragoza 2009, The Probabilistic Relevance Framework)."""
LENGTH_WEIGHT: Final = 0.75
"""b of BM25."""


@dataclass(slots=True)
class Search:
    """Documents, each with `id`, `title` and `text`."""

    documents: list[dict[str, str]]
    name: ClassVar[str] = "search"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation(
            "find",
            f"The {MAX_FOUND} documents that fit some words best, with the line that fits best.",
            record({"words": {"type": "string", "minLength": 1, "maxLength": 200}}),
            is_reading=True,
        ),
        Operation(
            "read",
            f"A page of a document: {PAGE_CHARS} characters.",
            record(
                {"id": {"type": "string", "maxLength": 40}},
                {"page": {"type": "integer", "minimum": 1, "maximum": 1000}},
            ),
            is_reading=True,
        ),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `documents` is a list."""
        return cls(plain_copy(state.get("documents", [])))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {"find": self._find, "read": self._read}
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"documents": plain_copy(self.documents)}

    def _find(self, words: str) -> ToolResult:
        bags = [Counter(terms(f"{document['title']} {document['text']}")) for document in self.documents]
        wanted = set(terms(words))
        scores = _scores(bags, wanted)
        order = sorted(range(len(bags)), key=lambda index: (-scores[index], index))
        found: list[JsonValue] = [
            {
                "id": self.documents[index]["id"],
                "title": self.documents[index]["title"],
                "line": _best_line(self.documents[index]["text"], wanted),
            }
            for index in order[:MAX_FOUND]
            if scores[index] > 0
        ]
        return told(found)

    def _read(self, id: str, page: int = 1) -> ToolResult:
        for document in self.documents:
            if document["id"] == id:
                text = document["text"]
                num_pages = max(1, math.ceil(len(text) / PAGE_CHARS))
                if page > num_pages:
                    raise ToolError(f"{id} has {num_pages} pages")
                return told(
                    f"page {page} of {num_pages}\n{text[(page - 1) * PAGE_CHARS : page * PAGE_CHARS]}"
                )
        raise ToolError(f"there is no document {id!r}")


def terms(text: str) -> list[str]:
    """Its words and numbers, in lower case."""
    return re.findall(r"\w+", text.casefold())


def _scores(bags: list[Counter[str]], wanted: set[str]) -> list[float]:
    """BM25 of each document."""
    mean_length = sum(bag.total() for bag in bags) / len(bags) if bags else 1.0
    num_with = {term: sum(term in bag for bag in bags) for term in sorted(wanted)}
    return [
        sum(
            math.log(1 + (len(bags) - num + 0.5) / (num + 0.5))
            * bag[term]
            * (SATURATION + 1)
            / (
                bag[term]
                + SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * bag.total() / (mean_length or 1.0))
            )
            for term, num in num_with.items()
            if bag[term]
        )
        for bag in bags
    ]


def _best_line(text: str, wanted: set[str]) -> str:
    best = max(text.splitlines() or [""], key=lambda line: len(wanted & set(terms(line))))
    return best[:SNIPPET_CHARS]
