"""What is said of a frontier: from the turns' answers to figures, and those as JSON, as Markdown, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadtests.frontier_figures import Columns, Frontier, Point, frontier
from loadtests.frontier_load import Answer, Way
from loadtests.machine import Machine
from router.resampling import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What a good answer is held to, besides being right. Seconds."""

    max_ttft_s: float
    max_tpot_s: float

    def are_met(self, answer: Answer) -> bool:
        """Whether it is right and came in time. One token has no time between tokens."""
        return (
            answer.is_right
            and answer.ttft_s is not None
            and answer.ttft_s <= self.max_ttft_s
            and (answer.tpot_s is None or answer.tpot_s <= self.max_tpot_s)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A measured frontier, and what it was measured on."""

    frontier: Frontier
    num_errors: Mapping[str, int]
    """By way, of those that had any."""
    reasons: Mapping[str, Mapping[str, int]]
    """By way: why tiers were chosen."""
    routers: tuple[str, ...]
    """The versions of what decided."""
    num_changed: int
    """Routed answers that were judged otherwise than the same tier's own answer to the prompt: what else is in an
    engine's batch can change one, even at temperature 0."""
    num_compared: int
    objectives: Objectives
    subject: Mapping[str, Any]
    """As in `plan.json`."""
    machine: Machine


def report_of(
    answers: Mapping[str, Sequence[Answer]],
    ways: Sequence[Way],
    *,
    ends: tuple[Way, Way],
    groups: NDArray[np.int64],
    objectives: Objectives,
    subject: Mapping[str, Any],
    machine: Machine,
    seed: int,
) -> Report:
    """The report of a whole run.

    Args:
        answers: of each way by its name, to the same prompts in the same order.
        ways: the ends and the routed ones.
        ends: always fast, always full.
        groups: (prompts,), near-duplicates with one number.
        objectives: of a good answer.
        subject: what was measured.
        machine: where.
        seed: of the intervals.
    """
    fast, full = (columns(answers[end.name], ends[1].model, objectives) for end in ends)
    routed = {way.target: answers[way.name] for way in ways if way.target is not None}
    of_auto = [answer for each in routed.values() for answer in each]
    changes = _changes(of_auto, [(end.model, answers[end.name]) for end in ends])
    return Report(
        frontier=frontier(
            fast,
            full,
            {target: columns(each, ends[1].model, objectives) for target, each in routed.items()},
            groups=groups,
            concurrency=subject["concurrency"],
            seed=seed,
        ),
        num_errors={
            way.name: num
            for way in ways
            if (num := sum(each.error is not None for each in answers[way.name]))
        },
        reasons={
            way.name: dict(Counter(each.reason or "none" for each in answers[way.name])) for way in ways
        },
        routers=tuple(sorted({each.router for each in of_auto if each.router})),
        num_changed=sum(changes),
        num_compared=len(changes),
        objectives=objectives,
        subject=subject,
        machine=machine,
    )


def columns(answers: Sequence[Answer], full: str, objectives: Objectives) -> Columns:
    """The answers as columns; `full` is the name of the stronger tier."""

    def column(values: Sequence[float | bool | None]) -> NDArray[np.float64]:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    return Columns(
        is_right=column([each.is_right for each in answers]),
        is_full=column([each.tier == full for each in answers]),
        cost=column([each.cost for each in answers]),
        ttft_s=column([each.ttft_s for each in answers]),
        e2e_s=column([each.e2e_s for each in answers]),
        num_output_tokens=column([each.num_output_tokens for each in answers]),
        is_good=column([objectives.are_met(each) for each in answers]),
    )


def _changes(routed: Sequence[Answer], ends: Sequence[tuple[str, Sequence[Answer]]]) -> list[bool]:
    """Of each routed answer whose tier has answered the prompt for itself as well: whether it was judged otherwise."""
    own = {
        (tier, each.prompt_id): each.is_right
        for tier, answers in ends
        for each in answers
        if each.error is None
    }
    pairs = ((each, own.get((each.tier or "", each.prompt_id))) for each in routed if each.error is None)
    return [each.is_right is not before for each, before in pairs if before is not None]


def verdict(of: Frontier) -> str:
    """Whether the routed curve lies above the line between the ends, in a sentence or two."""
    mean = of.mean_gain
    both = {"at equal share": mean.at_share, "at equal cost": mean.at_cost}
    above = [name for name, gain in both.items() if of.is_above(gain)]
    figures = "; ".join(f"{name} {points(gain)}" for name, gain in both.items())
    said = f"lies above the line {' and '.join(above)}" if above else "could not be told from the line"
    num_share = sum(of.is_above(each.at_share) for each in of.gains.values())
    num_cost = sum(of.is_above(each.at_cost) for each in of.gains.values())
    return (
        f"The routed curve {said}: {figures}, in points on average over {len(of.gains)} budgets. By itself, a budget's "
        f"interval is above the line at equal share for {num_share}, at equal cost for {num_cost} of them."
    )


def markdown(report: Report) -> str:
    """A table for a README, and what it is of."""
    of = report.frontier
    head = [
        "| | right | on full | cost of 1,000 | TTFT p50 / p95, ms | tokens/s | good answers/s "
        "| above the line, in points: at equal share | at equal cost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [_row(of.fast, "", "")]
    rows += [
        _row(point, points(of.gains[target].at_share), points(of.gains[target].at_cost))
        for target, point in of.routed.items()
    ]
    rows.append(_row(of.full, "", ""))
    return "\n".join([*head, *rows, "", verdict(of), "", caption(report), ""])


def caption(report: Report) -> str:
    """What the figures are of, and how they are to be read."""
    of, subject, machine = report.frontier, report.subject, report.machine
    models = ", ".join(f"{tier} = {model}" for tier, model in subject["models"].items())
    errors = ", ".join(f"{way} {num}" for way, num in report.num_errors.items()) or "none"
    return (
        f"{of.num_prompts} prompts ({of.num_groups} unlike each other, none like what the router was fitted on), "
        f"each asked in every way, {subject['concurrency']} at a time, at temperature 0; {models}; decided by "
        f"{', '.join(report.routers) or 'nothing'}. Brackets are 95 % intervals over prompts, with all ways on the "
        f"same ones. A good answer is right, begins within {report.objectives.max_ttft_s:g} s and goes on within "
        f"{report.objectives.max_tpot_s:g} s a token. Always full less always fast is {points(of.full_over_fast)}. "
        f"{report.num_changed} of {report.num_compared} routed answers were judged otherwise than the same tier's own. "
        f"Requests without an answer: {errors}. {machine.cpu}, {machine.num_cores} cores, {machine.system}."
    )


def as_json(report: Report) -> dict[str, Any]:
    """All figures, for a program; `orjson` writes the dataclasses in it."""
    of = report.frontier
    return {
        "machine": report.machine,
        "subject": report.subject,
        "routers": report.routers,
        "objectives": report.objectives,
        "num_prompts": of.num_prompts,
        "num_groups": of.num_groups,
        "always_fast": of.fast,
        "always_full": of.full,
        "full_over_fast": of.full_over_fast,
        "routed": [
            {"target": target, "point": point, "gain": of.gains[target]}
            for target, point in of.routed.items()
        ],
        "mean_gain": of.mean_gain,
        "is_above": {
            "at_share": of.is_above(of.mean_gain.at_share),
            "at_cost": of.is_above(of.mean_gain.at_cost),
        },
        "num_errors": report.num_errors,
        "reasons": report.reasons,
        "num_changed": report.num_changed,
        "num_compared": report.num_compared,
    }


def points(estimate: Estimate) -> str:
    """A share as points of a hundred, with its sign and interval."""
    if not np.isfinite(estimate.value):
        return "not known"
    return f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def cells(point: Point) -> tuple[str, ...]:
    """A way's name and figures without intervals, in the order of the tables' heads."""
    return (
        point.name,
        f"{100 * point.score.value:.1f} %",
        f"{100 * point.full_share.value:.0f} %",
        f"{1000 * point.cost.value:.4g}",
        f"{1000 * point.ttft_p50_s.value:.0f} / {1000 * point.ttft_p95_s.value:.0f}",
        f"{point.tokens_per_s.value:.1f}",
        f"{point.goodput_per_s.value:.2f}",
    )


def bounds(estimate: Estimate) -> str:
    """The interval of a share, in hundredths."""
    return f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _row(point: Point, *gains: str) -> str:
    name, score, *rest = cells(point)
    return f"| {' | '.join((name, f'{score} {bounds(point.score)}', *rest, *gains))} |"
