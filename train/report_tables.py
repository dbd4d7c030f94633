"""The parts of a run's page that are words and numbers: scores by domain, how episodes went, and what was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final


def domains(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """A column an evaluation, a line a domain."""
    head = "".join(f"<th>{escape(line['when'].replace('_', ' '))}</th>" for line in evaluations)
    by_name: dict[str, list[str]] = {}
    for line in evaluations:
        for row in line["evaluation"]["domains"]:
            by_name.setdefault(row["domain"], []).append(f"<td>{_score(row['greedy'])}</td>")
    rows = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>" for name, cells in sorted(by_name.items())
    )
    macro = "".join(f"<td><b>{line['greedy']:.3f}</b></td>" for line in evaluations)
    sampled = "".join(
        f"<td>{line['sampled']:.3f}</td>" if "sampled" in line else "<td></td>" for line in evaluations
    )
    return (
        "<h2>What the policy can do</h2><p>Greedy score on held-out items, with the middle 95 %.</p>"
        f"<table><tr><th>domain</th>{head}</tr>{rows}<tr><th>macro mean</th>{macro}</tr>"
        f"<tr><th>macro mean, sampled</th>{sampled}</tr></table>"
    )


PROCESS: Final = ("success", "calls", "reference", "efficiency", "errors", "recovered", "stopped")
"""The columns of how episodes went, in the order of `process_cells`."""


ENDS: Final = {"end": "ended by itself", "length": "cut at its length", "deadline": "cut at its deadline"}
"""In words, `rollout.StopReason`."""


def process_cells(score: Mapping[str, Any]) -> tuple[str, ...]:
    """A plain `process_scores.ProcessScore` in words; nothing where there is none of a kind."""

    def share(name: str) -> str:
        return "" if score[name] is None else f"{score[name]:.2f}"

    return (
        share("success_share"),
        f"{score['mean_calls']:.1f}",
        f"{score['mean_reference_calls']:.1f}",
        share("efficiency"),
        f"{score['num_with_error']} of {score['num_episodes']}",
        share("recovered_share"),
        share("stopped_share"),
    )


def processes(evaluation: Mapping[str, Any]) -> str:
    """A line a domain with tools; nothing where there is none."""
    rows = "".join(
        f"<tr><th>{escape(row['domain'])}</th>"
        + "".join(f"<td>{cell}</td>" for cell in process_cells(row["process"]))
        + "</tr>"
        for row in evaluation["evaluation"]["domains"]
        if row.get("process")
    )
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in PROCESS)
    return (
        "<h2>How it goes about tasks with tools</h2><p>Greedy episodes of the last evaluation: calls, and those of the "
        "reference; efficiency, the latter to the former in episodes that succeeded; episodes with an erroneous call, "
        "and the share of them that succeeded; the share that stopped in time.</p>"
        f"<table><tr><th>domain</th>{head}</tr>{rows}</table>"
    )


def answers(kept: Mapping[str, Any]) -> str:
    """What was said, by domain, folded; nothing where nothing was kept."""
    shown = sorted(kept.get("answers", ()), key=lambda answer: answer["domain"])
    if not shown:
        return ""
    return (
        f"<h2>What was said</h2><p>Greedy answers of the evaluation {escape(kept['when'].replace('_', ' '))}: of each "
        "domain one that is right and one that is wrong, as far as there are.</p>"
        + "".join(
            f"<details><summary>{escape(name)}</summary>{''.join(map(_answer, of_domain))}</details>"
            for name, of_domain in groupby(shown, key=lambda answer: answer["domain"])
        )
    )


def _answer(answer: Mapping[str, Any]) -> str:
    outcome = "right" if answer["passed"] else "wrong"
    verdict = f"{outcome}, score {answer['score']:.2f}, {ENDS[answer['stop']]}"
    if answer["error"]:
        verdict = f"no verdict: {answer['error']}"
    left_out = answer["num_turns_left_out"]
    parts = [
        _said("asked", answer["prompt"]),
        *(
            _said(turn["role"], "\n".join(filter(None, (turn["text"], turn["calls"]))))
            for turn in answer["turns"]
        ),
        f"<p>… {left_out} more</p>" if left_out else "",
        _said("evidence", answer["evidence"]) if answer["evidence"] else "",
    ]
    head = f"<p><b>{verdict}</b> <small>{escape(answer['item'])}</small></p>"
    return f'<div class="{outcome}">{head}{"".join(parts)}</div>'


def _said(who: str, text: str) -> str:
    return f"<p><small>{who}</small></p><pre>{escape(text) or ' '}</pre>"


def _score(score: Mapping[str, float]) -> str:
    return f"{score['mean']:.2f} <small>{score['low']:.2f}–{score['high']:.2f}</small>"
