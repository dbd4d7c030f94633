"""A run with a critic: interrupted anywhere it is the same run, and the critic begins alone; absent, it is absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.test_trainer import Judge, small, timeless, train
from train.checkpointing import load_latest
from train.domains.catalog import get
from train.parts import Parts
from train.phase import Phase
from train.policy import build_policy
from train.recipe import Recipe
from train.run_directory import RunDirectory, read_metrics
from train.trainer import Trainer


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def with_critic(**changes: object) -> Recipe:
    """The small recipe, with a critic."""
    return small(**{"rl.critic": {"num_warmup_steps": 2}} | changes)


def go(recipe: Recipe, path: Path, **how: Any) -> dict[str, torch.Tensor]:
    """As `train`, judged by length."""
    return train(recipe, path, Judge(), **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, go(with_critic(), path)


@pytest.mark.parametrize("stop_after", [5, 6, 7])
def test_interrupted_run_is_the_same_run(
    tmp_path: Path, whole: tuple[Path, dict[str, torch.Tensor]], stop_after: int
) -> None:
    """While the critic learns alone, at the end of that, and after: policy, head, moments and metrics are equal to the
    bit."""
    go(with_critic(), tmp_path / "cut", stop_after=stop_after)
    resumed = go(with_critic(), tmp_path / "cut", is_resumed=True)
    check_same(whole, tmp_path / "cut", resumed)


def test_rollouts_that_wait_keep_their_rewards(
    tmp_path: Path, whole: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    """Stopped between a step's rollouts and what is learned of them, the critic alone and not: the same run again."""
    for number in (1, 2):
        collect_and_stop(with_critic(), tmp_path / "cut", number)
        found = load_latest(tmp_path / "cut" / "checkpoints")
        assert found is not None
        assert found.state["pending"] is not None
    resumed = go(with_critic(), tmp_path / "cut", is_resumed=True)
    check_same(whole, tmp_path / "cut", resumed)


def collect_and_stop(recipe: Recipe, path: Path, number: int) -> None:
    """Run, or go on, until the rollouts of this step of reinforcement are there, and no further."""
    policy = build_policy(recipe, Path, num_slots=16)
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    parts = Parts(policy.model, policy.sampler, policy.codec, domains, Judge())  # type: ignore[arg-type]
    with RunDirectory(path, recipe, is_resumed=number > 1) as run:
        trainer = Trainer(
            recipe,
            parts,
            run,
            is_stopping=lambda: trainer.num_done[Phase.RL] == number and trainer.is_pending,
        )
        assert not trainer.run(is_resumed=number > 1)


def check_same(
    whole: tuple[Path, dict[str, torch.Tensor]], path: Path, weights: dict[str, torch.Tensor]
) -> None:
    """Weights, metrics, head, moments and scale are those of the whole run."""
    assert all(torch.equal(weight, weights[name]) for name, weight in whole[1].items())
    assert timeless(read_metrics(whole[0])) == timeless(read_metrics(path))
    kept, found = (load_latest(each / "checkpoints") for each in (whole[0], path))
    assert kept is not None
    assert found is not None
    assert kept.state["critic"] == found.state["critic"]
    assert kept.state["critic"]["num_steps_done"] == 4
    critic = [name for name in kept.tensors if name.startswith("critic.")]
    assert len(critic) == 4 * 4
    assert all(torch.equal(kept.tensors[name], found.tensors[name]) for name in critic)


def test_critic_begins_alone(tmp_path: Path, whole: tuple[Path, dict[str, torch.Tensor]]) -> None:
    """In the first steps the policy stays what it was, bit for bit, and values are learned; then both move."""
    lines = [line for line in read_metrics(whole[0]) if line["phase"] == "rl"]
    assert [line["is_critic_alone"] for line in lines] == [True, True, False, False]
    assert ["policy_loss" in line for line in lines] == [False, False, True, True]
    assert all(line["is_critic_applied"] and line["return_deviation"] > 0.1 for line in lines)
    only_by_heart = go(with_critic(**{"rl.num_steps": 0}), tmp_path / "heart")
    warmed = go(with_critic(**{"rl.num_steps": 2}), tmp_path / "warmed")
    assert all(torch.equal(weight, warmed[name]) for name, weight in only_by_heart.items())
    assert not all(torch.equal(weight, whole[1][name]) for name, weight in only_by_heart.items())


def test_absent_critic_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the setting none is made, in neither phase, and nothing of one is in a checkpoint."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a critic was made")

    monkeypatch.setattr("train.critic.Critic.__init__", refuse)
    go(small(**{"sft.num_steps": 1, "rl.num_steps": 1}), tmp_path / "run")
    found = load_latest(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert found.state["critic"] is None
    assert not any(name.startswith("critic.") for name in found.tensors)
    with pytest.raises(AssertionError, match="was made"):
        go(small(**{"sft.num_steps": 1, "rl.critic": {}}), tmp_path / "other")
