"""One recipe's runs of several seeds as one result: before and after by domain, and what each phase brought.

Held-out items are the same for every seed, so that their noise does not average out over seeds: an interval here is as
wide as one run's, and what differs between seeds is told beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from train.evaluate import Score, macro_mean
from train.recipe import Recipe
from train.run_directory import RECIPE_NAME, RunError, read_metrics, read_recipe

MOMENTS: Final = ("before", "after_sft", "after_rl")
_SAID: Final = {"seed": 0, "about": ""}
"""What runs may differ in."""
Answers = Literal["greedy", "sampled"]


@dataclass(frozen=True, slots=True)
class Row:
    """A domain, or the macro mean, over all runs."""

    name: str
    scores: Mapping[str, Score]
    """By moment."""
    gain: Score
    """Of the last moment over the one before it; in [−1, 1]. Both are taken for independent, which is wide."""


@dataclass(frozen=True, slots=True)
class SeedsCompared:
    """What the runs came to."""

    recipe: str
    seeds: tuple[int, ...]
    moments: tuple[str, ...]
    domains: tuple[Row, ...]
    macro: Row
    by_seed: tuple[Mapping[str, float], ...]
    """Each run's macro mean by moment."""

    @property
    def fallen(self) -> tuple[str, ...]:
        """Domains that the last phase took down beyond noise."""
        return tuple(row.name for row in self.domains if row.gain.high < 0.0)


def compare(runs: Sequence[Path], answers: Answers) -> SeedsCompared:
    """Read and join.

    Args:
        runs: directories of finished runs that differ in nothing but the seed.
        answers: of which the scores are.

    Raises:
        RunError: a run is missing, unfinished, or of another recipe than the first; or two have one seed.
    """
    recipes = [read_recipe(run) for run in runs]
    for run, recipe in zip(runs, recipes, strict=True):
        if recipe.model_copy(update=_SAID) != recipes[0].model_copy(update=_SAID):
            raise RunError(f"{run} is of another recipe than {runs[0]}: compare {RECIPE_NAME} of both")
    seeds = tuple(recipe.seed for recipe in recipes)
    if len(set(seeds)) < len(seeds):
        raise RunError(f"two of the runs have the same seed: {', '.join(map(str, seeds))}")
    found = [_evaluations(run) for run in runs]
    moments = tuple(moment for moment in MOMENTS if moment in _moments_of(recipes[0]))
    for run, of_run in zip(runs, found, strict=True):
        if of_run.keys() != set(moments):
            raise RunError(f"{run} is not finished; go on with it by --resume")
    scores = {
        moment: _over_runs([_scores(of_run[moment], answers) for of_run in found]) for moment in moments
    }
    rows = tuple(
        _row(name, {moment: scores[moment][name] for moment in moments}) for name in scores[moments[0]]
    )
    macro = {moment: macro_mean([row.scores[moment] for row in rows]) for moment in moments}
    by_seed = tuple({moment: float(of_run[moment][answers]) for moment in moments} for of_run in found)
    return SeedsCompared(recipes[0].name, seeds, moments, rows, _row("macro mean", macro), by_seed)


def _moments_of(recipe: Recipe) -> set[str]:
    phases = {"after_sft": recipe.sft.num_steps, "after_rl": recipe.rl.num_steps}
    return {"before", *(moment for moment, num_steps in phases.items() if num_steps)}


def _evaluations(run: Path) -> dict[str, dict[str, Any]]:
    lines = [line for line in read_metrics(run) if line["phase"] == "evaluation"]
    return {line["when"]: line for line in lines if line["when"] in MOMENTS}


def _scores(evaluation: Mapping[str, Any], answers: Answers) -> dict[str, Score]:
    """By domain."""
    rows = evaluation["evaluation"]["domains"]
    if any(row[answers] is None for row in rows):
        raise RunError(f"no {answers} answers were scored; set evaluation.num_samples")
    return {row["domain"]: Score(**row[answers]) for row in rows}


def _row(name: str, scores: Mapping[str, Score]) -> Row:
    before, after = [*scores.values()][-2:]
    gain = after.mean - before.mean
    half = hypot(before.half_width, after.half_width)
    return Row(name, scores, Score(gain, gain - half, gain + half))


def _over_runs(of_runs: Sequence[Mapping[str, Score]]) -> dict[str, Score]:
    """By domain."""
    joined = {name: [of_run[name] for of_run in of_runs] for name in of_runs[0]}
    return {
        name: Score(
            fmean(score.mean for score in scores),
            fmean(score.low for score in scores),
            fmean(score.high for score in scores),
        )
        for name, scores in joined.items()
    }
