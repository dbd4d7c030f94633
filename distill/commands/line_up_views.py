"""Tables of a line-up: on a terminal and as Markdown, of the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from distill.line_up.draws import Speed
from distill.line_up.run import Outlook
from distill.line_up.standings import Standing
from distill.paired import Estimate

_MB = 1e6


@dataclass(frozen=True, slots=True)
class Grid:
    """Headings and lines; the first column is text, the others are figures."""

    title: str
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]


def tables(found: Sequence[Standing]) -> Iterator[Table]:
    """All of them for a terminal. That of speeds and costs is apart: one is too wide."""
    for grid in (_scores(found), _speeds(found), _routed(found)):
        if grid.lines:
            table = Table(title=grid.title, title_justify="left")
            for number, heading in enumerate(grid.headings):
                widest = max(len(line[number]) for line in grid.lines)  # headings wrap, figures do not
                table.add_column(heading, justify="right" if number else "left", min_width=widest)
            for line in grid.lines:
                table.add_row(*map(escape, line))
            yield table


def markdown(found: Sequence[Standing]) -> str:
    """The same, scores and speeds side by side."""
    scores, speeds = _scores(found), _speeds(found)
    beside = Grid(
        scores.title,
        [*scores.headings, *speeds.headings[1:]],
        [[*left, *right[1:]] for left, right in zip(scores.lines, speeds.lines, strict=True)],
    )
    return "\n".join(_as_markdown(grid) for grid in (beside, _routed(found)) if grid.lines)


def _as_markdown(grid: Grid) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"

    border = "|---|" + "---:|" * (len(grid.headings) - 1) + "\n"
    return f"{grid.title}:\n\n" + row(grid.headings) + border + "".join(map(row, grid.lines))


def _scores(found: Sequence[Standing]) -> Grid:
    domains = len(found[0].differences)
    return Grid(
        f"verified scores over {domains} domains, 95 % intervals",
        ["model", "score", f"of {found[0].label}'s", "tokens an answer", "MB", "MB read a token"],
        [
            [
                each.label,
                _interval(each.score),
                "-" if each is found[0] else _share(each.kept),
                f"{each.mean_tokens:.1f}",
                f"{each.size_bytes / _MB:.1f}",
                f"{each.read_bytes / _MB:.1f}",
            ]
            for each in found
        ],
    )


def _speeds(found: Sequence[Standing]) -> Grid:
    first = found[0]
    columns = [(engine, num) for engine, speeds in first.speeds.items() for num in speeds]
    names = [f"{engine}, {'alone' if num == 1 else f'{num} streams'}" for engine, num in columns]
    costs = any(each.solved_s is not None for each in found)
    lines = []
    for each in found:
        cells = [_speed(each.speeds[engine][num], is_first=each is first) for engine, num in columns]
        if costs:
            cells += [_seconds(each.solved_s), "-" if each is first else _share(each.cost_share)]
        lines.append([each.label, *cells])
    extra = ["s a solved task", f"cost of {first.label}'s"] if costs else []
    return Grid("tokens a second, and what a solved task costs", ["model", *names, *extra], lines)


def _routed(found: Sequence[Standing]) -> Grid:
    first = found[0].label
    return Grid(
        f"on the requests that the router leaves to a model, when {first} gets the rest",
        ["model", f"{first} gets", "score", f"of {first}'s", f"cost of {first}'s"],
        [
            [
                each.label,
                f"{routed.share:.0%}",
                "-" if routed.score is None else _interval(routed.score),
                _share(routed.kept),
                _share(routed.cost_share),
            ]
            for each in found
            for routed in each.routed
        ],
    )


def outlook_table(found: Outlook) -> Table:
    """What is to be measured."""
    table = Table(title="to be measured", title_justify="left")
    for name in ("what", "how many", "tokens"):
        table.add_column(name, justify="left" if name == "what" else "right")
    table.add_row("answers in llama.cpp", f"{found.num_answers:,}", f"at most {found.max_answer_tokens:,}")
    for engine, num in found.num_rounds.items():
        table.add_row(f"rounds in {engine}", str(num), f"{found.timed_tokens[engine]:,}")
    table.add_row("measurements that are there", str(found.num_measurements), "")
    return table


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _share(estimate: Estimate | None) -> str:
    """A share in percent."""
    if estimate is None:
        return "-"
    low, high = (_percent(bound) for bound in (estimate.low, estimate.high))
    return f"{_percent(estimate.value)} % [{low}, {high}]"


def _percent(share: float) -> str:
    return "∞" if share == float("inf") else f"{100 * share:.0f}"


def _seconds(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    value, low, high = (
        "never" if bound == float("inf") else f"{bound:.3g}"
        for bound in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _speed(speed: Speed, *, is_first: bool) -> str:
    if is_first:
        return f"{speed.tokens_per_s:.1f}"
    told = f"{speed.tokens_per_s:.1f}, {speed.ratio:.2f}×"
    return told if speed.interval is None else f"{told} [{speed.interval[0]:.2f}, {speed.interval[1]:.2f}]"
