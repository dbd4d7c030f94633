"""A run: interrupted anywhere it comes to the same weights, bit for bit, and says what it did; reward rises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from train.checkpointing import load_latest
from train.domains.base import Item, Verdict
from train.domains.catalog import get
from train.parts import Parts
from train.phase import Phase
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.run_directory import RunDirectory, RunError, read_answers, read_metrics
from train.trainer import Trainer
from train.transcript import Transcript
from train.verifiers.pool import Pool


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Judge:
    """Judges by length: a policy that knows nothing yet gets many different scores, and every step a gradient."""

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        scores = [len(transcript.answer) % 5 / 4 for _, transcript in pairs]
        return [Verdict(score=score, passed=score > 0.5) for score in scores]


@pytest.fixture(scope="module")
def pool() -> Pool:
    return cast("Pool", Judge())


@pytest.fixture(scope="module")
def verifiers() -> Iterator[Pool]:
    with Pool(1) as pool:
        yield pool


def small(**changes: object) -> Recipe:
    """A few steps of a tiny policy, with all that has a state switched on."""
    overrides: dict[str, object] = {
        "base.width": 32,
        "base.max_tokens": 128,
        "base.num_layers": 1,
        "sft.num_steps": 4,
        "sft.items_per_step": 8,
        "rl.num_steps": 4,
        "rl.groups_per_step": 4,
        "rl.rollouts_per_group": 4,
        "rl.reference_weight": 0.1,
        "rl.entropy_band": [3.0, 9.0],
        "rl.setbacks": {"share": 0.5},
        "rl.conflict": {"is_measured": True},
        "replay": {"share": 0.5, "num_prompts": 4, "max_answer_tokens": 4},
        "evaluation": {"num_items": 4, "num_samples": 1},
        "checkpoint_every_steps": 1,
    }
    return load_recipe("r0", overrides=overrides | changes)


def train(
    recipe: Recipe, path: Path, pool: Pool, *, stop_after: int | None = None, is_resumed: bool = False
) -> dict[str, torch.Tensor]:
    """Run, or go on, until the end or for so many steps; the weights then."""
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    seen: list[object] = []
    parts = Parts(policy.model, policy.sampler, policy.codec, domains, pool)
    with RunDirectory(path, recipe, is_resumed=is_resumed) as run:
        trainer = Trainer(
            recipe,
            parts,
            run,
            on_step=lambda step: seen.append(step) if "evaluation" not in step.metrics else None,
            is_stopping=lambda: stop_after is not None and len(seen) >= stop_after,
        )
        assert trainer.run(is_resumed=is_resumed) is (stop_after is None)
    return {name: weight.detach().clone() for name, weight in policy.model.trained().items()}


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


@pytest.mark.parametrize("stop_after", [1, 4, 5, 7])
def test_interrupted_run_is_the_same_run(tmp_path: Path, pool: Pool, stop_after: int) -> None:
    """Stopped in either phase or between them and gone on with in a new process's state: weights and metrics are equal
    to the bit."""
    recipe = small()
    whole = train(recipe, tmp_path / "whole", pool)
    train(recipe, tmp_path / "cut", pool, stop_after=stop_after)
    resumed = train(recipe, tmp_path / "cut", pool, is_resumed=True)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert timeless(read_metrics(tmp_path / "whole")) == timeless(read_metrics(tmp_path / "cut"))


def test_killed_run_goes_on_from_its_last_checkpoint(tmp_path: Path, pool: Pool) -> None:
    """What was done after the checkpoint is forgotten and done again, metrics included."""
    recipe = small(checkpoint_every_steps=3)
    whole = train(recipe, tmp_path / "whole", pool)
    with pytest.raises(KeyboardInterrupt):
        _train_until_killed(recipe, tmp_path / "killed", pool, after=8)
    found = load_latest(tmp_path / "killed" / "checkpoints")
    assert found is not None
    assert found.num_steps == 7
    resumed = train(recipe, tmp_path / "killed", pool, is_resumed=True)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert timeless(read_metrics(tmp_path / "whole")) == timeless(read_metrics(tmp_path / "killed"))


def _train_until_killed(recipe: Recipe, path: Path, pool: Pool, *, after: int) -> None:
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    steps = []

    def kill(step: object) -> None:
        steps.append(step)
        if len([each for each in steps if "evaluation" not in each.metrics]) == after:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with RunDirectory(path, recipe, is_resumed=False) as run:
        Trainer(
            recipe, Parts(policy.model, policy.sampler, policy.codec, domains, pool), run, on_step=kill
        ).run()


def test_a_run_is_not_run_over(tmp_path: Path, pool: Pool) -> None:
    """A directory with a run takes no second one, nor the same with another recipe; nothing to resume is said."""
    recipe = small(**{"sft.num_steps": 1, "rl.num_steps": 0})
    train(recipe, tmp_path / "run", pool)
    with pytest.raises(RunError, match="--resume"):
        RunDirectory(tmp_path / "run", recipe, is_resumed=False)
    with pytest.raises(RunError, match="another recipe"):
        RunDirectory(tmp_path / "run", small(seed=5), is_resumed=True)
    with pytest.raises(RunError, match="no run to resume"):
        RunDirectory(tmp_path / "absent", recipe, is_resumed=True)


def test_what_is_recorded(tmp_path: Path, pool: Pool) -> None:
    """A line a step, and evaluations before and after each phase."""
    train(small(), tmp_path / "run", pool)
    lines = read_metrics(tmp_path / "run")
    whens = [line["when"] for line in lines if line["phase"] == "evaluation"]
    assert whens == ["before", "after_sft", "after_rl"]
    assert [line["step"] for line in lines if line["phase"] == "rl"] == [1, 2, 3, 4]
    last = next(line for line in reversed(lines) if line["phase"] == "rl")
    assert set(last["cosines"]) == {"replay", "terse_addition", "terse_sorting"}
    assert last["grad_norm"] > 0
    assert any(line.get("num_second") for line in lines)
    kept = read_answers(tmp_path / "run")
    assert (kept["when"], kept["step"]) == ("after_rl", 8)
    shown = {(answer["domain"], answer["passed"]) for answer in kept["answers"]}
    assert {domain for domain, _ in shown} == {"terse_addition", "terse_sorting"}
    assert len(shown) == len(kept["answers"])
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.training
@pytest.mark.timeout(600)
def test_reward_rises(tmp_path: Path, verifiers: Pool) -> None:
    """R0 whole: reinforcement raises the sampled score above its own start."""
    train(load_recipe("r0"), tmp_path / "run", verifiers)
    sampled = {
        line["when"]: line["sampled"]
        for line in read_metrics(tmp_path / "run")
        if line["phase"] == "evaluation"
    }
    assert sampled["before"] < 0.1
    assert sampled["after_sft"] > 0.2
    assert sampled["after_rl"] > sampled["after_sft"] + 0.03


def test_phases_can_be_stopped_between(tmp_path: Path, pool: Pool) -> None:
    """A run that is told to stop where reinforcement begins has learned by heart and nothing else."""
    recipe = small()
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    parts = Parts(policy.model, policy.sampler, policy.codec, domains, pool)
    with RunDirectory(tmp_path / "run", recipe, is_resumed=False) as run:
        trainer = Trainer(recipe, parts, run, is_stopping=lambda: trainer.phase is Phase.RL)
        assert not trainer.run()
    assert trainer.num_done == {Phase.SFT: 4, Phase.RL: 0}
