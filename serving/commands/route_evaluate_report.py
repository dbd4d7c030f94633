"""The report of an evaluation: one HTML page that is complete in itself, and its plots beside it as PNG."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console

from serving.commands.route_evaluate_plots import frontier_png, reliability_png
from serving.commands.route_evaluate_run import Evaluation
from serving.commands.route_evaluate_views import show

PAGE_NAME: Final = "index.html"
WIDTH: Final = 150
"""Columns of the tables on the page."""


def write_report(directory: Path, evaluations: Sequence[Evaluation]) -> list[Path]:
    """Write page and plots; the page is the first of what is returned.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    page, files = directory / PAGE_NAME, []
    sections = []
    for one in evaluations:
        plots = _plots(one)
        for name, data in plots.items():
            (directory / name).write_bytes(data)
            files.append(directory / name)
        sections.append(_section(one, plots))
    page.write_text(_PAGE.replace("SECTIONS", "\n".join(sections)), encoding="utf-8")
    return [page, *files]


def _plots(one: Evaluation) -> dict[str, bytes]:
    name = re.sub(r"[^\w-]+", "_", one.name)
    plots = {
        f"{name}_frontier.png": frontier_png(
            one.report, f"{one.name}: {one.report.num_prompts:,} prompts, held out"
        )
    }
    for place, arm in enumerate(one.report.arms):
        arm_name = re.sub(r"[^\w-]+", "_", arm.arm)
        plots[f"{name}_reliability_{place}_{arm_name}.png"] = reliability_png(arm, f"{one.name}, {arm.arm}")
    return plots


def _section(one: Evaluation, plots: dict[str, bytes]) -> str:
    images = "\n".join(
        f'<img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        for name, data in plots.items()
    )
    text = io.StringIO()
    show([one], [], Console(file=text, width=WIDTH, highlight=False))
    return f"<section><h2>{escape(one.name)}</h2>\n{images}\n<pre>{escape(text.getvalue())}</pre></section>"


_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tierwise route evaluate</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1150px; margin: 2rem auto; padding: 0 1rem; color: #222; }
img { max-width: 100%; height: 380px; background: #fff; }
pre { font: 12px/1.35 ui-monospace, monospace; overflow-x: auto; }
</style></head><body>
<h1>How good the difficulty model is</h1>
<p>Every figure is of prompts that the model was not fitted on. What stands behind a figure is the middle 95 % over
resampled prompts, near-duplicates together; the band is that of the gain over a random order. CPT(x): the share of
requests that must go to the stronger arm to recover x of its advantage. ECE is beside what perfect probabilities would
show by chance.</p>
SECTIONS
</body></html>
"""
