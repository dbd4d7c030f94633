"""Two terse tasks whose prompts differ in one character and whose answers oppose each other: a built conflict.

What moves the policy towards the one answer moves it away from the other until it heeds that character. Natural domains
hardly pull against each other; these show what projection does where domains do (`tierwise train ablate conflict`).
"""

from __future__ import annotations

import random
from typing import Final

from train.domains.terse import LETTERS, TerseDomain
from train.domains.terse_workings import sorting


def _rising(rng: random.Random, size: int) -> tuple[str, str]:
    word = "".join(rng.choices(LETTERS, k=size + 3))
    return f"order < {word}:", "".join(sorted(word))


def _falling(rng: random.Random, size: int) -> tuple[str, str]:
    word = "".join(rng.choices(LETTERS, k=size + 3))
    return f"order > {word}:", "".join(sorted(word, reverse=True))


DOMAINS: Final = (
    TerseDomain(
        "terse_rising", "Write letters in alphabetical order; the answer is those letters.", _rising, sorting
    ),
    TerseDomain(
        "terse_falling", "Write letters from the last to the first of the alphabet.", _falling, sorting
    ),
)
