"""reasoning-gym's tasks as domains, one each, judged more strictly than they judge themselves.

Many of its scorers pay a part for a right answer somewhere in a long text, for a prefix, or for anything at all. Here
an answer is a last line or a last block, and it scores 1 where the task's own scorer gives full marks, else 0. The
audit looks at the marks as well: a task whose scorer pays a constant answer is not to be trusted with the rest, and is
quarantined. A scorer that raises raises, and the worker makes an error of it.
"""

from __future__ import annotations

import contextlib
import decimal
import io
import re
import string
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final

from train.domains import reasoning_gym_levels as levels
from train.domains import reasoning_gym_shapes as shapes
from train.domains.base import Family, Item, Verdict
from train.seeds import seed_of
from train.transcript import Transcript, answered
from train.verifiers.answers import final_answer, final_block, judged

BLOCK: Final = 500
"""Items from one generator, whose seeds go up by one: blocks of other seeds begin elsewhere in 2³¹."""
NUM_DRAWS: Final = 3
FULL_MARKS: Final = 1.0 - 1e-9
MAX_EXCESS_CHARS: Final = 200
"""Beyond twice the stored answer. What is longer is wrong before a scorer spends its time on it."""

_EXPLOSIVE: Final = re.compile(
    r"(?:\*\*|\^)\s*[({]*\s*[\w.]+\s*[)}]*\s*(?:\*\*|\^)|(?:\*\*|\^)\s*[({]*\s*\d{4,}|(?<!\w)\d+[eE][+-]?\d{4,}"
)
"""Towers of powers and exponents of thousands: some scorers hand an answer to sympy, which computes them."""
_UNREAL: Final = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
"""No distance from the right number is greater than that of NaN, a scorer may find."""


@dataclass(frozen=True, slots=True)
class ReasoningGymTask:
    """One task."""

    name: str

    @property
    def family(self) -> Family:
        """All of them are puzzles of one kind or another."""
        return Family.REASONING

    @property
    def description(self) -> str:
        """Where it comes from, and how it is judged."""
        return f"reasoning-gym's {self.name}; right only if its own scorer gives the last line or block full marks."

    @property
    def num_levels(self) -> int:
        """As written in `train.domains.reasoning_gym_levels`."""
        return levels.num_levels(self.name)

    def configuration(self) -> str:
        """What its items are made from beside this module."""
        source = levels.KNOBS.get(self.name) or ("length" if self.name in levels.BY_LENGTH else "curriculum")
        shape = shapes.SHAPES.get(self.name)
        return f"reasoning-gym {version('reasoning-gym')} {source} {shape.pattern if shape else ''}"

    def item(self, seed: int, index: int, level: int) -> Item:
        """The item at this place."""
        entry, _ = self._entry(seed, index, level)
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=entry["question"],
            answer=str(entry["answer"]),
            max_answer_tokens=min(2048, 16 + 2 * len(str(entry["answer"]))),
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """Full marks or nothing, by the task's scorer on the final answer."""
        return judged(self.marks(item, transcript) >= FULL_MARKS)

    def marks(self, item: Item, transcript: Transcript) -> float:
        """What the task's own scorer gives for the final answer, in [0, 1].

        Raises:
            ValueError: the item is not what this process generates at its place.
        """
        entry, scorer = self._entry(item.seed, item.index, item.level)
        shape = shapes.SHAPES.get(self.name)
        if entry["question"] != item.prompt:
            raise ValueError(f"{item.id} is another item in this process: its generator is not deterministic")
        readings = _readings(transcript.answer, str(entry["answer"]))
        fitting = [reading for reading in readings if shape is None or shape.fullmatch(reading)]
        if self.name == "puzzle24":  # any way to 24 is full marks to its scorer, whatever numbers were given
            fitting = [
                reading for reading in fitting if _numbers_of(reading) == sorted(entry["metadata"]["numbers"])
            ]
        with decimal.localcontext(decimal.DefaultContext):
            return max((float(scorer.score_answer(reading, entry)) for reading in fitting), default=0.0)

    def reference(self, item: Item) -> Transcript:
        """The stored answer."""
        return answered(item.answer)

    def _entry(self, seed: int, index: int, level: int) -> tuple[dict[str, Any], Any]:
        """The task's own record of an item, and what scores it."""
        if self.name not in levels.BY_LENGTH:
            return _drawn(self.name, seed, index, level)
        draws = [_drawn(self.name, seed, index * NUM_DRAWS + draw, 0) for draw in range(NUM_DRAWS)]
        return sorted(draws, key=lambda draw: len(draw[0]["question"]))[level]


def _readings(text: str, reference: str) -> list[str]:
    """What may count as the final answer: the last block where several lines are wanted, else the last line, with and
    without what stands around an answer. None of them is empty, or could take for ever to score."""
    last = text.strip().splitlines()[-1:] if text.strip() else []
    found = [final_block(text)] if "\n" in reference else [*last, final_answer(text)]
    longest = 2 * len(reference) + MAX_EXCESS_CHARS
    short = [one for one in found if one.strip() and len(one) <= longest]
    sane = [one for one in short if one == reference or not (_EXPLOSIVE.search(one) or _UNREAL.search(one))]
    return list(dict.fromkeys(sane))


def _numbers_of(formula: str) -> list[int]:
    return sorted(map(int, re.findall(r"\d+", formula)))


@lru_cache(maxsize=512)
def _drawn(name: str, seed: int, index: int, level: int) -> tuple[dict[str, Any], Any]:
    # Some generators print dots, and one sets the precision of decimals for the whole process.
    with contextlib.redirect_stdout(io.StringIO()), decimal.localcontext(decimal.DefaultContext):
        dataset = _dataset(name, seed_of(seed, name, level, index // BLOCK) % 2**31, level)
        return dict(dataset[index % BLOCK]), dataset


class _Alphabet(str):
    """Letters in order, in place of a set of them whose order is another in every process."""

    __slots__ = ()

    def __sub__(self, others: Collection[str]) -> str:
        return "".join(letter for letter in self if letter not in others)


@lru_cache(maxsize=128)
def _dataset(name: str, seed: int, level: int) -> Any:
    """A generator, which is also what scores: making one may take a second."""
    dataset = _made(name, {"seed": seed, "size": BLOCK}, level)
    if name in {"isomorphic_strings", "ransom_note"}:
        dataset.letters = _Alphabet(string.ascii_lowercase)
    return dataset


def _made(name: str, fixed: dict[str, int], level: int) -> Any:
    from reasoning_gym.coaching.base_curriculum import DefaultCurriculumContext, RangeAttributeMode
    from reasoning_gym.factory import CURRICULA, DATASETS

    dataset, config = DATASETS[name]
    if name in levels.BY_LENGTH:
        return dataset(config(**fixed))
    if name in levels.KNOBS:
        return dataset(config(**levels.settings(name, level), **fixed))
    curriculum = CURRICULA[name]()
    curriculum.set_global_level(level)
    context = DefaultCurriculumContext(RangeAttributeMode.UPPER_BOUND)
    return dataset(curriculum.generate_configuration(fixed, context=context))


DOMAINS = tuple(ReasoningGymTask(name) for name in levels.NAMES)
