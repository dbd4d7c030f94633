"""A long text in no language, in which words come as often as they do in one."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.listed import LENGTHS, ListedDomain
from train.domains.drawn import Question
from train.domains.words import made_up_words

WORDS_PER_SENTENCE: Final = 4
NUM_ASKED: Final = 3
NUM_WORDS: Final = 40
"""Different ones, at most."""
EXPONENT: Final = 1.6
"""Of the k-th word's frequency, k^−α; between natural text's 1 and RULER's 2."""


class FrequentWordsDomain(ListedDomain):
    """RULER's frequent words (arXiv:2404.06654): the three commonest of a text whose words fall off by a power."""

    name: ClassVar[str] = "document_frequent_words"
    description: ClassVar[str] = (
        "Name the three commonest words of a coded text, most frequent first; checked in order."
    )
    is_ordered: ClassVar[bool] = True

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        num = WORDS_PER_SENTENCE * LENGTHS[level]
        shares = [rank**-EXPONENT for rank in range(1, NUM_WORDS + 1)]
        times = [max(1, round(num * share / sum(shares))) for share in shares]
        words = made_up_words(rng, NUM_WORDS)
        said = [word for word, often in zip(words, times, strict=True) for _ in range(often)]
        rng.shuffle(said)
        return Question(
            prompt=f"{' '.join(said)}\n\nWhich {NUM_ASKED} words come most often in this text? "
            "Answer with them, the most frequent first, parted by commas, such as one, two, three.",
            answer=", ".join(words[:NUM_ASKED]),
        )


DOMAIN: Final[Domain] = FrequentWordsDomain()
