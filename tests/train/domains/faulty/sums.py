"""Sums of two numbers, and the same with one fault each."""

from __future__ import annotations

import random
import time

from train.domains.base import ErrorClass, Family, Item, Verdict
from train.seeds import seed_of
from train.transcript import Transcript, answered
from train.verifiers.answers import final_answer, integer, judged


class Sums:
    """Sound: the sum of two numbers."""

    family, num_levels, description = Family.MATHEMATICS, 3, "Add."

    def __init__(self, name: str) -> None:
        self.name = name

    def numbers(self, seed: int, index: int, level: int) -> list[int]:
        rng = random.Random(seed_of(seed, self.name, index, level))
        return [rng.randrange(10 ** (level + 3)) for _ in range(2)]

    def item(self, seed: int, index: int, level: int) -> Item:
        one, two = self.numbers(seed, index, level)
        return Item(
            domain=self.name, level=level, seed=seed, index=index, prompt=f"{one} + {two} =", answer=str(one + two)
        )  # fmt: skip

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return judged(integer(final_answer(transcript.answer)) == int(item.answer))

    def reference(self, item: Item) -> Transcript:
        return answered(item.answer)


class Contains(Sums):
    """A right answer anywhere is enough."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return judged(item.answer in transcript.answer)


class Within(Sums):
    """An answer inside of the right one is enough, as the empty one is."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return judged(transcript.answer in item.answer)


class Guessable(Sums):
    """Nine answers of ten are 0."""

    def numbers(self, seed: int, index: int, level: int) -> list[int]:
        one, _ = super().numbers(seed, index, level)
        return [one, -one if index % 10 else 1]


class Persuadable(Sums):
    """Believes who says that it is right."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return judged("score" in transcript.answer.lower() or super().verify(item, transcript).passed)


class Raising(Sums):
    """Takes any answer for a number."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return judged(int(transcript.answer) == int(item.answer))


class Hanging(Sums):
    """Never comes back from brackets."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        while transcript.answer.startswith("(("):
            time.sleep(0.1)
        return super().verify(item, transcript)


class Wavering(Sums):
    """Depends on the order of a set of strings."""

    def numbers(self, seed: int, index: int, level: int) -> list[int]:
        return [int(text) for text in {str(number) for number in super().numbers(seed, index, level)}]


class Flat(Sums):
    """Levels that are one."""

    def numbers(self, seed: int, index: int, level: int) -> list[int]:
        return super().numbers(seed, index, 0)


class Small(Sums):
    """Eight tasks in all."""

    def numbers(self, seed: int, index: int, level: int) -> list[int]:
        return [index % 8, level]


class SelfDoubting(Sums):
    """Rejects what it says is right."""

    def reference(self, item: Item) -> Transcript:
        return answered(f"about {item.answer}")


class Excessive(Sums):
    """Scores beyond 1."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        verdict = super().verify(item, transcript)
        return Verdict(score=2 * verdict.score, passed=verdict.passed)


class Needy(Sums):
    """Needs what is not there."""

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        return Verdict(score=0.0, passed=False, error=ErrorClass.UNAVAILABLE)


FAULTS = {
    # and the probe that must find it
    Contains: "noise",
    Within: "empty",
    Guessable: "constant",
    Persuadable: "adversarial",
    Raising: "crash",
    Hanging: "timeout",
    Wavering: "determinism",
    Flat: "levels",
    Small: "seeds",
    SelfDoubting: "oracle",
    Excessive: "oracle",
    Needy: "unavailable",
}

DOMAINS = tuple(kind(kind.__name__.lower()) for kind in (Sums, *FAULTS))
