"""What a search found, for whoever reads: as a tier's TOML with its evidence in comments, and as a table. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Any

import tomli_w
from rich.console import Group
from rich.table import Table
from rich.text import Text

from loadtests.tuning.evidence import interval, shown
from loadtests.tuning.figures import Objective, median_figure
from loadtests.tuning.findings import Findings, Outcome, Trial, front, points
from loadtests.tuning.space import Setting, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was measured, where and when."""

    model: str
    """As the operator named it."""
    model_sha256: str | None
    """Of its weights; None where they are not on this machine."""
    engine: str
    """With its version."""
    machine: str
    day: date
    objective: Objective
    num_candidates: int


def toml(findings: Findings, subject: Subject, tree: dict[str, Any], *, command: Sequence[str] = ()) -> str:
    """The text of a configuration file.

    Args:
        findings: of the search.
        subject: what it was about.
        tree: the configuration, `{"tiers": {NAME: …}}`.
        command: what starts the server where the tier does not.
    """
    lines = [
        f"Found by `tierwise bench engine {subject.model} --tune --objective {subject.objective}` on {subject.day}.",
        f"machine  {subject.machine}",
        f"model    {subject.model}, sha256 {subject.model_sha256 or 'unknown'}",
        f"engine   {subject.engine}",
        f"tried    {len(findings.trials)} of {subject.num_candidates} candidates and more where one was taken"
        + ("; time was up" if findings.is_cut_short else ""),
        f"outcome  {findings.outcome}",
        *_evidence(findings, subject),
        "The price is not measured: it is the shipped full tier's, for you to set.",
    ]
    if command:
        lines += ["The server is started by:", f"  {shlex.join(command)}"]
    return "".join(f"# {line}\n" for line in lines) + "\n" + tomli_w.dumps(tree)


def _evidence(findings: Findings, subject: Subject) -> list[str]:
    if not findings.best:
        return []
    answers = "the same as" if findings.keeps_answers else "not always those of"
    told = [f"taken    {words(findings.best)}; greedy answers are {answers} the default's"]
    if findings.outcome is Outcome.INTERRUPTED:
        won = next((each for each in reversed(findings.trials) if each.setting == findings.best), None)
        over = None if won is None else won.gain(subject.objective)
        if won is not None and over is not None:
            told.append(
                f"         {subject.objective} {shown(over)} over {words(won.against)}, on servers kept running"
            )
        return told
    told.append(
        f"over the default, medians of {len(findings.confirmation)} rounds on fresh servers, with their intervals:"
    )
    for objective in Objective:
        before = median_figure([each.reference for each in findings.confirmation], objective)
        after = median_figure([each.candidate for each in findings.confirmation], objective)
        ratio = interval([each.ratio(objective) for each in findings.confirmation])
        told.append(f"  {objective:<12} {shown(ratio)}   {before:.3g} → {after:.3g} {objective.unit}")
    return told


def render(findings: Findings, subject: Subject) -> Group:
    """The table of all candidates, and what came out."""
    table = Table(title="× the default, medians; * neither another candidate nor the default dominates")
    table.add_column("candidate")
    for objective in Objective:
        table.add_column(objective, justify="right")
    table.add_column("rounds", justify="right")
    table.add_column("outcome")
    placed = points(findings)
    in_front = [each.setting for each in front(placed)]
    ratios = {id(each.trial): each.ratios for each in placed}
    for trial in findings.trials:
        found = ratios.get(id(trial))
        cells = [f"{found[each]:.3f}" if found else "–" for each in Objective]
        star = " *" if trial.setting in in_front else ""
        table.add_row(words(trial.setting) + star, *cells, str(len(trial.rounds)), _verdict(trial))
    said = [f"{words(findings.best)}: {findings.outcome}", *_evidence(findings, subject)]
    return Group(Text(subject.machine, style="dim"), table, *(Text(line) for line in said))


def _verdict(trial: Trial) -> str:
    lossy = "" if trial.keeps_answers or not trial.rounds else ", other greedy answers"
    return f"{trial.verdict}{lossy}" + (f": {trial.fault}" if trial.fault else "")


def as_json(findings: Findings, subject: Subject) -> dict[str, Any]:
    """For programs. Ratios above 1 are better; figures are in the objective's unit."""
    confirmed = (
        {each.value: findings.confirmed(each) for each in Objective} if findings.confirmation else None
    )
    return {
        "subject": subject,
        "best": findings.best,
        "outcome": findings.outcome,
        "keeps_answers": findings.keeps_answers,
        "is_cut_short": findings.is_cut_short,
        "gain": confirmed,
        "default": {each.value: _median(findings, each) for each in Objective},
        "candidates": [_candidate(each) for each in findings.trials],
    }


def _candidate(trial: Trial) -> dict[str, Any]:
    ratios = (
        {each.value: median(r.ratio(each) for r in trial.rounds) for each in Objective}
        if trial.rounds
        else None
    )
    return {
        "setting": _plain(trial.setting),
        "against": _plain(trial.against),
        "ratios": ratios,
        "num_rounds": len(trial.rounds),
        "verdict": trial.verdict,
        "keeps_answers": trial.keeps_answers,
        "fault": trial.fault or None,
    }


def _median(findings: Findings, objective: Objective) -> float | None:
    return median_figure(findings.default_figures, objective) if findings.default_figures else None


def _plain(setting: Setting) -> dict[str, Any]:
    return dict(setting)
