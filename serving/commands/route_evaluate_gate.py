"""Bounds on the figures of an evaluation, for a check that runs without a person: `apgr=0.7,mmlu.ece=0.03`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from serving.commands.route_evaluate_run import Evaluation


class BoundError(ValueError):
    """A bound is none, or is for a set that is not there."""


@dataclass(frozen=True, slots=True)
class _Figure:
    is_lower_better: bool
    read: Callable[[Evaluation], float]
    """Of several arms or rewritings, the worst."""


def _least(values: Sequence[float]) -> float:
    """Not a number where one is none, unlike `min`."""
    return float(np.min(values))


def _most(values: Sequence[float]) -> float:
    return float(np.max(values))


FIGURES: Final[Mapping[str, _Figure]] = {
    "apgr": _Figure(False, lambda one: one.report.rankings[0].apgr.value),
    "auc": _Figure(False, lambda one: _least([arm.auc.value for arm in one.report.arms])),
    "ece": _Figure(True, lambda one: _most([arm.calibration_error.value for arm in one.report.arms])),
    "brier": _Figure(True, lambda one: _most([arm.brier.value for arm in one.report.arms])),
    "flips": _Figure(True, lambda one: _most([each.flips.value for each in one.robustness])),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a figure must reach, or must not exceed."""

    figure: str
    value: float
    table: str | None
    """The set that it is for; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A bound, and what was measured."""

    table: str
    figure: str
    bound: float
    is_at_most: bool
    measured: float
    is_met: bool


def parse_bounds(text: str) -> tuple[Bound, ...]:
    """The bounds in `apgr=0.7,mmlu.ece=0.03`.

    Raises:
        BoundError: it is none of these.
    """
    return tuple(_bound(part.strip()) for part in text.split(",") if part.strip())


def check(bounds: Sequence[Bound], names: Collection[str]) -> None:
    """Whether every bound is for a table of these names.

    Raises:
        BoundError: one is not.
    """
    if unknown := [bound.table for bound in bounds if bound.table not in (None, *names)]:
        raise BoundError(f"--require: there is no set {unknown[0]!r} here; there is {', '.join(names)}")


def verdicts(bounds: Sequence[Bound], evaluations: Sequence[Evaluation]) -> list[Verdict]:
    """Each bound on each table that it is for. A figure that is not a number meets none."""
    return [
        _verdict(bound, one) for bound in bounds for one in evaluations if bound.table in (None, one.name)
    ]


def _verdict(bound: Bound, evaluation: Evaluation) -> Verdict:
    figure = FIGURES[bound.figure]
    measured = figure.read(evaluation)
    return Verdict(
        table=evaluation.name,
        figure=bound.figure,
        bound=bound.value,
        is_at_most=figure.is_lower_better,
        measured=measured,
        is_met=measured <= bound.value if figure.is_lower_better else measured >= bound.value,
    )


def _bound(text: str) -> Bound:
    name, equals, value = text.partition("=")
    table, _, figure = name.strip().rpartition(".")
    if not equals or figure not in FIGURES:
        raise BoundError(
            f"{text!r} is no bound; write apgr=0.7 or SET.ece=0.03, with one of {', '.join(FIGURES)}"
        )
    try:
        return Bound(figure=figure, value=float(value), table=table or None)
    except ValueError:
        raise BoundError(f"{value!r} in {text!r} is no number") from None
