"""Runs in a queue: a job that gave way, at either border, comes to the weights that it would have had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from train.checkpointing import load_latest
from train.domains.catalog import get
from train.parts import Parts
from train.phase import Phase
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.run_directory import RunDirectory
from train.scheduler.job import Job
from train.scheduler.queue_directory import Queue
from train.scheduler.slot import Slot
from train.scheduler.training import TrainingJob
from train.trainer import Step, Trainer
from train.verifiers.pool import Pool


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1) as pool:
        yield pool


def tiny(seed: int) -> Recipe:
    overrides: dict[str, object] = {
        "seed": seed,
        "base.width": 32,
        "base.num_layers": 1,
        "sft.num_steps": 2,
        "sft.items_per_step": 4,
        "rl.num_steps": 3,
        "rl.groups_per_step": 4,
        "rl.rollouts_per_group": 4,
        "rl.setbacks": {"share": 0.5},
        "rl.exploration": "active",
        "modes": {"forced_steps": 2},
        "evaluation": {"num_items": 2, "num_samples": 1},
    }
    return load_recipe("r0", overrides=overrides)


@contextmanager
def assembled(recipe: Recipe, pool: Pool) -> Iterator[Parts]:
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    yield Parts(policy.model, policy.sampler, policy.codec, domains, pool)


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    found = load_latest(path / "checkpoints")
    assert found is not None
    return dict(found.tensors)


def alone(recipe: Recipe, path: Path, pool: Pool) -> dict[str, torch.Tensor]:
    with assembled(recipe, pool) as parts, RunDirectory(path, recipe, is_resumed=False) as run:
        assert Trainer(recipe, parts, run).run()
    return weights_of(path)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_preempted_jobs_end_with_the_weights_of_uninterrupted_runs(tmp_path: Path, pool: Pool) -> None:
    """A low job gives way in the middle of a step of reinforcement, a high one runs to its end, the low one goes on:
    both are what they would have been, to the bit."""
    low, high = tiny(1), tiny(2)
    queue = Queue(tmp_path / "queue")
    queue.add(Job(id="low", recipe=low.model_dump(mode="json"), added_s=0.0))
    order: list[str] = []

    class Arriving(Pool):
        """Judges; while it judges the low job's second step, the high job comes."""

        def __init__(self) -> None:
            self.num_calls = 0

        def verify_all(self, pairs):  # type: ignore[no-untyped-def]
            if order.count("low rl") == 1 and not (queue.path / "jobs" / "high.json").exists():
                queue.add(Job(id="high", recipe=high.model_dump(mode="json"), priority=1, added_s=1.0))
            return pool.verify_all(pairs)

    arriving = Arriving()

    def seen(step: Step) -> None:
        if "evaluation" not in step.metrics:
            held = [entry.job.id for entry in queue.entries() if entry.is_held]
            order.append(f"{held[0]} {step.phase}")

    job = TrainingJob(lambda recipe: assembled(recipe, arriving), seen)
    Slot(queue, job).run()
    assert order == [
        "low sft", "low sft", "low rl",
        "high sft", "high sft", "high rl", "high rl", "high rl",
        "low rl", "low rl",
    ]  # fmt: skip
    assert [entry.progress.status for entry in queue.entries()] == ["done", "done"]
    assert queue.progress("low").num_preemptions == 1
    assert [turn.end for turn in queue.turns()["0"]] == ["gave_way", "done", "done"]
    assert same(weights_of(queue.run_path("low")), alone(low, tmp_path / "low", pool))
    assert same(weights_of(queue.run_path("high")), alone(high, tmp_path / "high", pool))


def test_rollouts_that_wait_are_used(tmp_path: Path, pool: Pool) -> None:
    """Stopped between rollouts and learning: the checkpoint has them, and going on samples no others."""
    recipe = tiny(3)
    whole = alone(recipe, tmp_path / "whole", pool)
    path = tmp_path / "cut"
    with assembled(recipe, pool) as parts, RunDirectory(path, recipe, is_resumed=False) as run:
        asked: list[int] = []

        def is_stopping() -> bool:
            if trainer.phase is Phase.RL:
                asked.append(1)
            return len(asked) >= 4  # before step 1, within it, before step 2, within it

        trainer = Trainer(recipe, parts, run, is_stopping=is_stopping)
        assert not trainer.run()
    found = load_latest(path / "checkpoints")
    assert found is not None
    assert found.state["pending"] is not None
    num_waiting = len(found.state["pending"]["draws"])
    with assembled(recipe, pool) as parts, RunDirectory(path, recipe, is_resumed=True) as run:
        before = parts.sampler.stats.num_tokens  # type: ignore[attr-defined]
        seen: list[int] = []
        trainer = Trainer(
            recipe,
            parts,
            run,
            on_step=lambda _: seen.append(parts.sampler.stats.num_tokens),  # type: ignore[attr-defined]
        )
        assert trainer.run(is_resumed=True)
    assert num_waiting == recipe.rl.groups_per_step
    assert seen[0] == before == 0
    assert same(whole, weights_of(path))
