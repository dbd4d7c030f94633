"""Questions to a shelf of documents that can only be searched and read by the page."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.documents.text import rendered, sections
from train.domains.tool_use.task import ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import CITIES, THINGS, made_up_words


class SearchDomain(ToolDomain):
    """The fact is in one document of many; from level 1 on it must be asked for in two steps."""

    name: ClassVar[str] = "document_search"
    description: ClassVar[str] = (
        "Find a fact by searching documents; checked by the fact and the document cited."
    )
    family: ClassVar[Family] = Family.DOCUMENTS
    price: ClassVar[float] = 0.05

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        num = 6 * 3**level
        owners = [name.capitalize() for name in made_up_words(rng, num, 3)]
        codes, ids = rng.sample(range(10_000, 100_000), num), rng.sample(range(100, 1_000), num)
        documents = [
            _document(rng, id, f"{owner} has the licence {code}.")
            for id, owner, code in zip(ids, owners, codes, strict=True)
        ]
        owner, code, holder = owners[0], codes[0], f"d{ids[0]}"
        asked = f"What licence has {owner}?"
        calls = [calling("search_find", words=f"{owner} licence"), calling("search_read", id=holder)]
        if level:
            town, things = rng.choice(CITIES), rng.sample(THINGS, 3)
            for id, thing, other in zip((2_000, 2_001, 2_002), things, owners[:3], strict=True):
                documents.append(_document(rng, id, f"The {thing} of {town} belongs to {other}."))
            asked = f"What licence has the one to whom the {things[0]} of {town} belongs?"
            calls = [
                calling("search_find", words=f"{things[0]} of {town} belongs"),
                calling("search_read", id="d2000"),
                *calls,
            ]
        rng.shuffle(documents)
        return ToolTask(
            prompt=f"{asked} Search the documents. Answer with the number and the id of the document that has it, "
            "such as 12345; d678.",
            tools={"search": {"documents": [*documents]}},
            turns=one_by_one(*calls),
            answer=f"{code}; {holder}",
        )


def _document(rng: random.Random, id: int, fact: str) -> dict[str, Any]:
    parts = sections(rng, 8)
    parts[rng.randrange(len(parts))].append(fact)
    return {"id": f"d{id}", "title": f"Report on {rng.choice(CITIES)}", "text": rendered(parts)}


DOMAIN: Final[Domain] = SearchDomain()
