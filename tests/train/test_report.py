"""The page of a run: what was measured is on it, and what was said cannot break it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from train.commands.run_progress import evaluation_tables
from train.report import write_report

SCORE = {"mean": 0.5, "low": 0.25, "high": 0.75}
PROCESS = {
    "num_episodes": 8,
    "success_share": 0.5,
    "mean_calls": 3.25,
    "mean_reference_calls": 2.0,
    "efficiency": 0.625,
    "num_with_error": 3,
    "recovered_share": None,
    "stopped_share": 0.875,
}
EVILS = "<script>alert(1)</script>"


def evaluation(when: str) -> dict[str, Any]:
    rows = [
        {
            "domain": name,
            "num_items": 8,
            "greedy": SCORE,
            "sampled": None,
            "num_errors": 0,
            "mean_tokens": 4.0,
            "process": process,
        }
        for name, process in (("gcd", None), ("tool_files", PROCESS))
    ]
    return {
        "phase": "evaluation",
        "step": 2,
        "when": when,
        "greedy": 0.5,
        "sampled": 0.25,
        "evaluation": {"domains": rows},
    }


def answer(**changes: Any) -> dict[str, Any]:
    turns = [
        {"role": "assistant", "text": EVILS, "calls": "files_read({})"},
        {"role": "tool", "text": "no such file", "calls": ""},
    ]
    plain = {
        "domain": "tool_files",
        "item": "tool_files/0/1-2",
        "prompt": "Read it.",
        "turns": turns,
        "num_turns_left_out": 3,
        "stop": "length",
        "score": 0.0,
        "passed": False,
        "evidence": "the answer is not right",
        "error": None,
    }
    return plain | changes


def written(path: Path, answers: list[dict[str, Any]] | None) -> str:
    """The page of a run with a critic, before and after two steps."""
    (path / "recipe.json").write_text(json.dumps({"name": "mine", "about": "A test."}))
    steps = [
        {"phase": "rl", "step": step, "score": 0.1 * step, "value_loss": 0.4, "explained_variance": 0.2}
        for step in (1, 2)
    ]
    lines = [evaluation("before"), *steps, evaluation("after_rl")]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if answers is not None:
        kept = {"when": "after_rl", "step": 2, "answers": answers}
        (path / "answers.json").write_text(json.dumps(kept))
    write_report(path, path / "report.html")
    return (path / "report.html").read_text()


def test_a_page_has_what_was_measured(tmp_path: Path) -> None:
    """Scores, how episodes went, the critic's curves, and answers by turn with evidence."""
    page = written(tmp_path, [answer(), answer(domain="gcd", passed=True, stop="end", score=1.0)])
    for said in (
        "What the policy can do",
        "How it goes about tasks with tools",
        "<td>0.50</td><td>3.2</td><td>2.0</td><td>0.62</td><td>3 of 8</td><td></td><td>0.88</td>",
        "squared error of the critic",
        "what the critic foretells",
        "right, score 1.00, ended by itself",
        "wrong, score 0.00, cut at its length",
        "no such file",
        "files_read({})",
        "the answer is not right",
        "… 3 more",
    ):
        assert said in page, said
    assert page.index("<summary>gcd</summary>") < page.index("<summary>tool_files</summary>")


def test_what_was_said_cannot_break_the_page(tmp_path: Path) -> None:
    """A policy's text is text."""
    page = written(tmp_path, [answer(prompt=EVILS, evidence=EVILS)])
    assert EVILS not in page
    assert page.count("&lt;script&gt;") == 3


def test_a_run_that_kept_no_answers(tmp_path: Path) -> None:
    """Has a page all the same; answers without a verdict are said to have none."""
    assert "What was said" not in written(tmp_path, None)
    assert "no verdict: timed_out" in written(tmp_path, [answer(error="timed_out")])


def test_a_terminal_shows_how_episodes_went() -> None:
    """Beside the scores, and only where there are tools."""
    console = Console(width=160, record=True)
    for table in evaluation_tables(evaluation("before")):
        console.print(table)
    text = console.export_text()
    assert "greedy episodes with tools" in text
    assert "3 of 8" in text
    without = evaluation("before")
    without["evaluation"]["domains"].pop()
    assert len(list(evaluation_tables(without))) == 1
