"""Questions to a shelf of documents that can only be searched and read by the page."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.documents.text import rendered, sections
from train.domains.tool_use.task import ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import CITIES, THINGS, people
from train.tools.search import Search


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
        owners, things = people(rng, num), [rng.choice(THINGS) for _ in range(num)]
        codes = rng.sample(range(10_000, 100_000), num)
        documents = [
            _document(rng, id, f"{owner} has the licence {code}.")
            for id, owner, code in zip(rng.sample(range(100, 1_000), num), owners, codes, strict=True)
        ]
        place = rng.randrange(num)
        owner, code = owners[place], codes[place]
        asked, calls = f"What licence has {owner}?", [calling("search_find", words=f"{owner} licence")]
        if level:
            town, thing = rng.choice(CITIES), things[place]
            documents.append(
                _document(rng, rng.randrange(1_000, 2_000), f"The {thing} of {town} belongs to {owner}.")
            )
            asked = f"What licence has the one to whom the {thing} of {town} belongs?"
            calls.insert(0, calling("search_find", words=f"{thing} of {town} belongs to"))
        rng.shuffle(documents)
        holder = next(each["id"] for each in documents if f"{owner} has the licence" in each["text"])
        calls.append(calling("search_read", id=holder))
        assert holder in Search(documents).apply("find", {"words": f"{owner} licence"}).content
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
