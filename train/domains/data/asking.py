"""How answers to questions on data are compared: numbers to their last decimal, labels and sets of labels exactly."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.task import Task
from train.transcript import JsonValue, Transcript
from train.verifiers.answers import choice, final_answer, is_number, items, judged

NOTHING: Final = "none"


class Wanted(StrEnum):
    """What kind of answer."""

    NUMBER = "number"
    LABEL = "label"
    LABELS = "labels"


def number_task(question: str, value: float | Fraction, num_decimals: int) -> Task:
    """A number, accepted within one unit of its last decimal; a whole one exactly."""
    how = (
        "Answer with the number."
        if not num_decimals
        else f"Answer with the number, to {num_decimals} decimals."
    )
    data: dict[str, JsonValue] = {"wanted": Wanted.NUMBER.value, "decimals": num_decimals}
    return Task(f"{question}\n{how}", f"{float(value):.{num_decimals}f}", data)


def label_task(question: str, label: str, labels: Sequence[str]) -> Task:
    """One of some labels."""
    return Task(
        f"{question}\nAnswer with one of: {', '.join(labels)}.",
        label,
        {"wanted": Wanted.LABEL.value, "labels": list(labels)},
    )


def labels_task(question: str, labels: Sequence[str]) -> Task:
    """A set of labels, in any order."""
    return Task(
        f"{question}\nAnswer with them, with commas between.",
        ", ".join(labels),
        {"wanted": Wanted.LABELS.value},
    )


def judge(item: Item, transcript: Transcript) -> Verdict:
    """Right or wrong."""
    said = final_answer(transcript.answer)
    is_right = _is_right(said, item)
    return judged(is_right, "" if is_right else f"{said[:60]!r} is not the answer")


def _is_right(said: str, item: Item) -> bool:
    match Wanted(str(item.data["wanted"])):
        case Wanted.NUMBER:
            decimals = int(str(item.data["decimals"]))
            tolerance = Fraction(1, 10**decimals) if decimals else 0
            return is_number(said, Fraction(item.answer), tolerance=tolerance)
        case Wanted.LABEL:
            labels = item.data["labels"]
            assert isinstance(labels, list)
            return choice(said, [str(label) for label in labels]) == item.answer
        case Wanted.LABELS:
            given, wanted = items(said), items(item.answer)
            return given is not None and len(given) == len(set(given)) and set(given) == set(wanted or ())
