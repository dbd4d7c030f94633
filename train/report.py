"""A run as one HTML page, complete in itself: evaluations, curves, what was said, recipe."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure

from train import report_tables
from train.run_directory import RECIPE_NAME, read_answers, read_metrics

CURVES: Final = (
    ("sft", "cross_entropy_loss", "surprise at a reference token (nats)"),
    ("rl", "score", "mean score of a step's rollouts"),
    ("rl", "entropy", "entropy of the policy (nats a token)"),
    ("rl", "alike_share", "groups whose rollouts did equally well (share)"),
    ("rl", "mean_length", "tokens an answer"),
    ("rl", "grad_norm", "norm of the gradient"),
    ("rl", "max_ratio", "greatest ratio of policy to sampler, raw"),
    ("rl", "recovered_share", "second tries: wrong to right (share)"),
    ("rl", "lost_share", "second tries: right to wrong (share)"),
    ("rl", "value_loss", "squared error of the critic's values, clipped"),
    ("rl", "explained_variance", "what the critic foretells (share of the variance of returns)"),
)
SMOOTHING: Final = 10
"""Steps that the bold line is a mean over."""
BLUE, GREY = "#0b66c3", "#9a9a9a"


def write_report(run: Path, out: Path) -> None:
    """Write the page of the run in `run` to `out`.

    Raises:
        OSError: the run is not there, or the page cannot be written.
    """
    recipe = json.loads((run / RECIPE_NAME).read_text(encoding="utf-8"))
    lines = read_metrics(run)
    evaluations = [line for line in lines if line["phase"] == "evaluation"]
    parts = [
        f"<h1>{escape(recipe['name'])}</h1><p>{escape(recipe['about'])}</p>",
        report_tables.domains(evaluations) if evaluations else "<p>No evaluation yet.</p>",
        report_tables.processes(evaluations[-1]) if evaluations else "",
        "<h2>Curves</h2>",
        *(_curve(lines, phase, name, title) for phase, name, title in CURVES),
        _cosines([line for line in lines if "cosines" in line]),
        report_tables.answers(read_answers(run)),
        f"<h2>Recipe</h2><pre>{escape(json.dumps(recipe, indent=2))}</pre>",
    ]
    out.write_text(_PAGE.replace("BODY", "\n".join(parts)), encoding="utf-8")


def _curve(lines: Sequence[Mapping[str, Any]], phase: str, name: str, title: str) -> str:
    """A figure of one metric; nothing where the run has none of it."""
    points = [
        (line["step"], line[name])
        for line in lines
        if line["phase"] == phase and isinstance(line.get(name), int | float)
    ]
    if not points:
        return ""
    steps, values = zip(*points, strict=True)
    smooth = [
        sum(values[max(0, place - SMOOTHING + 1) : place + 1]) / min(place + 1, SMOOTHING)
        for place in range(len(values))
    ]
    figure = Figure(figsize=(4.6, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, values, color=GREY, linewidth=0.7)
    axes.plot(steps, smooth, color=BLUE, linewidth=1.8)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(f"{phase} step", fontsize=8)
    axes.tick_params(labelsize=8)
    return _image(figure, f"{title}, by {phase} step")


def _cosines(lines: Sequence[Mapping[str, Any]]) -> str:
    """The last conflict matrix."""
    if not lines:
        return ""
    matrix = lines[-1]["cosines"]
    names = sorted(matrix)
    figure = Figure(figsize=(2 + 0.35 * len(names), 1.6 + 0.35 * len(names)), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(
        [[matrix[one].get(other, 0.0) for other in names] for one in names], cmap="RdBu", vmin=-1, vmax=1
    )
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    figure.colorbar(shown, ax=axes, shrink=0.7)
    return "<h2>Cosines of domains' gradients</h2>" + _image(figure, "cosines of gradients, domain by domain")


def _image(figure: Figure, alt: str) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return (
        f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'
    )


_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tierwise train report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child { text-align: left; font-weight: normal; } small { color: #666; } img { max-width: 100%; }
pre { font: 12px/1.35 ui-monospace, monospace; overflow-x: auto; }
details pre { margin: 0 0 .4rem; white-space: pre-wrap; background: #f6f6f6; padding: .3rem .6rem; }
details p { margin: .2rem 0; } .right, .wrong { border-left: 4px solid #2a8f4f; padding-left: .8rem; margin: .8rem 0; }
.wrong { border-color: #c0392b; }
</style></head><body>
BODY
</body></html>
"""
