"""A long list of words, of which some come far more often."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.listed import LENGTHS, ListedDomain
from train.domains.drawn import Question
from train.domains.words import made_up_words

WORDS_PER_SENTENCE: Final = 2
"""A numbered word takes about half the tokens of a sentence of the other documents."""


class CommonWordsDomain(ListedDomain):
    """RULER's common words (arXiv:2404.06654): the rest comes a third as often, the whole list over."""

    name: ClassVar[str] = "document_common_words"
    description: ClassVar[str] = "Name the words that come most often in a long list; checked as a set."

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        num_words, num_common = WORDS_PER_SENTENCE * LENGTHS[level], 3 + level // 2
        times = max(3, num_words // 30)
        rare = max(1, times // 3)
        words = made_up_words(rng, num_common + (num_words - num_common * times) // rare)
        common, others = words[:num_common], words[num_common:]
        said = common * times + others * rare
        rng.shuffle(said)
        lines = " ".join(f"{number}. {word}" for number, word in enumerate(said, 1))
        return Question(
            prompt=f"{lines}\n\nWhich {num_common} words come most often in this list? "
            "Answer with these words, parted by commas, such as one, two, three.",
            answer=", ".join(sorted(common)),
        )


DOMAIN: Final[Domain] = CommonWordsDomain()
