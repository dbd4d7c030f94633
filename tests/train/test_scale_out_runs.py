"""A whole run by two processes is the run of one, and each goes on with what the other has left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.train import scale_out_runs as runs
from tests.train.scale_out_launch import launch
from train.checkpointing import load_latest
from train.processes import ALONE
from train.run_directory import read_metrics
from train.scale_out import Wrapping

pytestmark = [pytest.mark.training, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def _exact() -> Iterator[None]:
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)


def alone(
    path: Path, *, stop_after: int | None = None, is_resumed: bool = False, asked: list[int] | None = None
) -> dict[str, Tensor]:
    return runs.go(path, ALONE, Wrapping.DDP, stop_after=stop_after, is_resumed=is_resumed, asked=asked)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have gone through every case."""
    path = tmp_path_factory.mktemp("runs")
    alone(path / "stopped", stop_after=runs.STOP_AFTER)
    for wrapping in Wrapping:
        shutil.copytree(path / "stopped", path / f"{wrapping}-taken")
    launch(runs.__file__, path)
    return path


@pytest.fixture(scope="module")
def whole(place: Path) -> dict[str, Tensor]:
    """The weights of a run by one process, kept in `place / "alone"`, and what its evaluations asked beside it."""
    asked: list[int] = []
    weights = alone(place / "alone", asked=asked)
    (place / "alone.asked").write_text(json.dumps(asked))
    return weights


@pytest.mark.parametrize("wrapping", Wrapping)
@pytest.mark.parametrize("name", ["whole", "taken"])
def test_two_processes_run_as_one(
    place: Path, whole: dict[str, Tensor], wrapping: Wrapping, name: str
) -> None:
    """From the beginning, or from where one process left it: both have the weights of one process to 1e-7, and what was
    recorded, once, and kept is the same."""
    for rank in range(2):
        check_same(torch.load(place / f"{wrapping}-{name}-{rank}.pt"), whole)
    check_kept(place / "alone", place / f"{wrapping}-{name}")


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("wrapping", Wrapping)
def test_evaluations_are_shared_out(place: Path, wrapping: Wrapping) -> None:
    """A sampler that is made for an evaluation is asked by each process for its half of the prompts, and no more."""
    wanted = json.loads((place / "alone.asked").read_text())
    first, second = (json.loads((place / f"{wrapping}-whole-{rank}.asked").read_text()) for rank in range(2))
    assert wanted
    assert [sum(pair) for pair in zip(first, second, strict=True)] == wanted
    assert all(one - other in {0, 1} for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("wrapping", Wrapping)
def test_one_goes_on_with_what_two_have_left(
    place: Path, whole: dict[str, Tensor], wrapping: Wrapping
) -> None:
    """A checkpoint of two processes has the names and shapes of one's, and one comes from it to the same weights."""
    path = place / f"{wrapping}-left"
    kept, left = load_latest(place / "stopped" / "checkpoints"), load_latest(path / "checkpoints")
    assert kept is not None
    assert left is not None
    assert {n: t.shape for n, t in kept.tensors.items()} == {n: t.shape for n, t in left.tensors.items()}
    assert kept.state.keys() == left.state.keys()
    check_same(alone(path, is_resumed=True), whole)
    check_kept(place / "alone", path)


def test_what_is_refused_is_refused_everywhere(place: Path) -> None:
    """A directory that holds a run is found by the first process, and every process says so and ends."""
    for rank in range(2):
        assert "holds a run already" in (place / f"refused-{rank}").read_text()


def test_processes_that_have_come_apart_say_so(place: Path) -> None:
    """Where one has two things to be judged and the other has one, neither waits: both say what may be the reason."""
    for rank in range(2):
        said = (place / f"apart-{rank}").read_text()
        assert "verdicts of 1 against verdicts of 2" in said
        assert "run it in one process" in said


def check_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, weight in wanted.items():
        torch.testing.assert_close(found[name], weight, rtol=1e-7, atol=1e-7)


def check_kept(wanted: Path, found: Path) -> None:
    ours, theirs = (timeless(read_metrics(path)) for path in (wanted, found))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert_near(other, one)
    last, other_last = (load_latest(path / "checkpoints") for path in (wanted, found))
    assert last is not None
    assert other_last is not None
    assert last.tensors.keys() == other_last.tensors.keys()
    for name, tensor in last.tensors.items():
        torch.testing.assert_close(other_last.tensors[name], tensor, rtol=1e-6, atol=1e-6)
    assert_near(other_last.state, last.state)


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


def assert_near(found: Any, wanted: Any) -> None:
    """The same members, numbers nearly; sketches and clips are sums in single precision."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_near(found[name], wanted[name])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_near(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    else:
        assert found == wanted
