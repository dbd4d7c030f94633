"""How much of its teacher's skill a student keeps, domain by domain, on the same held-out items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from train.evaluate import DomainScore, Evaluation, Score


@dataclass(frozen=True, slots=True)
class Retention:
    """Greedy scores of one domain, or of all."""

    domain: str
    num_items: int
    teacher: Score
    student: Score

    @property
    def share(self) -> float | None:
        """Student's mean of teacher's; None where the teacher can do nothing."""
        return self.student.mean / self.teacher.mean if self.teacher.mean else None


def retention(student: Evaluation, teacher: Evaluation) -> list[Retention]:
    """A row a domain in the student's order, and one of the macro means (`domain` is `all`) at the end.

    Raises:
        ValueError: they were asked other domains, or other numbers of items.
    """
    asked = [[(score.domain, score.num_items) for score in each.domains] for each in (student, teacher)]
    if asked[0] != asked[1]:
        raise ValueError("student and teacher were not asked the same items; evaluate both alike")
    rows = [
        Retention(ours.domain, ours.num_items, theirs.greedy, ours.greedy)
        for ours, theirs in zip(student.domains, teacher.domains, strict=True)
    ]
    num_items = sum(row.num_items for row in rows)
    return [*rows, Retention("all", num_items, teacher.greedy, student.greedy)]


def last_retention(lines: Sequence[Mapping[str, Any]], teacher: str) -> list[Retention]:
    """Of a run's metrics: the last evaluation of the student against its teacher's; empty where either is missing.

    Args:
        lines: of the run.
        teacher: when the teacher's evaluation was.
    """
    found = [line for line in lines if line["phase"] == "evaluation"]
    ours = [line["evaluation"] for line in found if line["when"] != teacher]
    theirs = [line["evaluation"] for line in found if line["when"] == teacher]
    return retention(_evaluation(ours[-1]), _evaluation(theirs[-1])) if ours and theirs else []


def retention_at(when: str, lines: Sequence[Mapping[str, Any]], teacher: str) -> list[Retention]:
    """Of a run's metrics: the last evaluation of this moment against the teacher's; empty where either is missing."""
    return last_retention([line for line in lines if line.get("when") in {when, teacher}], teacher)


def _evaluation(plain: Mapping[str, Any]) -> Evaluation:
    """From `Evaluation.plain`, greedy scores alone."""
    return Evaluation(
        tuple(
            DomainScore(
                domain=row["domain"],
                num_items=row["num_items"],
                greedy=Score(**row["greedy"]),
                sampled=None,
                num_errors=row["num_errors"],
                mean_tokens=row["mean_tokens"],
            )
            for row in plain["domains"]
        )
    )
