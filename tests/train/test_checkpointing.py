"""Checkpoints: whole or not there, the last whole one found, and no more kept than asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from train import checkpointing
from train.checkpointing import STATE_NAME, TENSORS_NAME, Checkpoint, load_latest, save


def checkpoint(num_steps: int) -> Checkpoint:
    tensors = {"weight": torch.full((2, 3), float(num_steps)), "moment": torch.arange(4)}
    return Checkpoint(num_steps, tensors, {"consumed": ["a/0/1-2"], "λ": 0.1})


def test_round_trip(tmp_path: Path) -> None:
    """What was saved is what is loaded, to the bit."""
    save(tmp_path, checkpoint(7))
    found = load_latest(tmp_path)
    assert found is not None
    assert (found.num_steps, found.state) == (7, {"consumed": ["a/0/1-2"], "λ": 0.1})
    assert torch.equal(found.tensors["weight"], checkpoint(7).tensors["weight"])
    assert found.tensors["moment"].dtype is torch.int64


def test_nothing_there(tmp_path: Path) -> None:
    """A run that has none begins anew."""
    assert load_latest(tmp_path / "absent") is None
    assert load_latest(tmp_path) is None


def test_as_many_are_kept_as_asked_for(tmp_path: Path) -> None:
    """The last ones, by step and not by name's chance."""
    for num_steps in (9, 10, 100):
        save(tmp_path, checkpoint(num_steps), num_kept=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000100"]


@pytest.mark.parametrize("name", [STATE_NAME, TENSORS_NAME])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damage_is_passed_over(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint that lost a piece is not resumed from; the one before is, and the log says why."""
    save(tmp_path, checkpoint(1))
    path = save(tmp_path, checkpoint(2)) / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.unlink()
    found = load_latest(tmp_path)
    assert found is not None
    assert found.num_steps == 1
    assert "step-00000002 is passed over" in caplog.text


def test_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where writing fails the error is told, and the checkpoint before is still the last."""
    save(tmp_path, checkpoint(1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpointing, "sync_tree", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, checkpoint(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_steps_again_replace(tmp_path: Path) -> None:
    """A run that was taken up from an earlier step writes over what it had written."""
    save(tmp_path, checkpoint(1))
    save(tmp_path, Checkpoint(1, {"weight": torch.zeros(1)}, {}))
    found = load_latest(tmp_path)
    assert found is not None
    assert found.state == {}
