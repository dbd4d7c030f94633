"""Runs of several seeds as one result: means over seeds, intervals of one run, and refusals that say why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from train.commands.compare import main
from train.recipe import load_recipe
from train.run_directory import METRICS_NAME, RECIPE_NAME, RunError
from train.seeds_compared import compare

MakeRun = Callable[..., Path]


def _score(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(
        seed: int, by_moment: dict[str, dict[str, float]], *, learning_rate: float = 1e-4, name: str = ""
    ) -> Path:
        run = tmp_path / (name or f"seed{seed}")
        run.mkdir()
        num_steps = 3 if "after_sft" in by_moment else 0
        recipe = load_recipe(
            "r0",
            overrides={"seed": seed, "rl.learning_rate": learning_rate, "sft.num_steps": num_steps},
        )
        (run / RECIPE_NAME).write_text(recipe.model_dump_json())
        lines = [{"phase": "sft", "step": 1}]
        for moment, means in by_moment.items():
            rows = [{"domain": name, "greedy": _score(mean), "sampled": None} for name, mean in means.items()]
            macro = sum(means.values()) / len(means)
            lines.append(
                {"phase": "evaluation", "when": moment, "greedy": macro, "evaluation": {"domains": rows}}
            )
        (run / METRICS_NAME).write_text("\n".join(map(json.dumps, lines)) + "\n")
        return run

    return make


def test_means_are_over_seeds_and_intervals_are_as_wide_as_one_run_s(make_run: MakeRun) -> None:
    runs = [
        make_run(0, {"before": {"a": 0.2, "b": 0.6}, "after_rl": {"a": 0.6, "b": 0.2}}),
        make_run(1, {"before": {"a": 0.4, "b": 0.6}, "after_rl": {"a": 0.6, "b": 0.4}}),
    ]
    found = compare(runs, "greedy")
    assert (found.seeds, found.moments) == ((0, 1), ("before", "after_rl"))
    first = found.domains[0]
    assert first.scores["before"].mean == pytest.approx(0.3)
    assert first.scores["before"].high - first.scores["before"].low == pytest.approx(0.2)
    # two intervals of ± 0.1 taken for independent
    assert (first.gain.mean, first.gain.high - first.gain.mean) == pytest.approx((0.3, 0.1 * 2**0.5))
    assert found.macro.scores["after_rl"].mean == pytest.approx(0.45)
    assert found.macro.gain.high - found.macro.gain.mean == pytest.approx(0.1)
    assert found.fallen == ("b",)
    assert [by_moment["after_rl"] for by_moment in found.by_seed] == pytest.approx([0.4, 0.5])


def test_runs_of_different_recipes_or_one_seed_are_not_joined(make_run: MakeRun) -> None:
    done = {"before": {"a": 0.2}, "after_rl": {"a": 0.6}}
    one, other = make_run(0, done), make_run(1, done, learning_rate=2e-4)
    with pytest.raises(RunError, match="another recipe"):
        compare([one, other], "greedy")
    with pytest.raises(RunError, match="same seed"):
        compare([one, make_run(0, done, name="twin")], "greedy")


def test_a_run_that_is_not_finished_or_has_no_samples_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(RunError, match="--resume"):
        compare([make_run(0, {"before": {"a": 0.2}})], "greedy")
    with pytest.raises(RunError, match="num_samples"):
        compare([make_run(1, {"before": {"a": 0.2}, "after_rl": {"a": 0.6}})], "sampled")


def test_the_command_shows_the_table_and_writes_it(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = make_run(0, {"before": {"a": 0.2}, "after_sft": {"a": 0.5}, "after_rl": {"a": 0.2}})
    written = tmp_path / "told.json"
    assert main([str(run), "--json", str(written)]) == 0
    shown = capsys.readouterr().out
    assert "down beyond noise: a" in shown
    assert "-0.300" in shown
    told = json.loads(written.read_text())
    assert told["macro"]["scores"]["after_sft"]["mean"] == 0.5
    assert main([str(tmp_path / "nothing")]) == 1
    assert "holds no run" in capsys.readouterr().err
