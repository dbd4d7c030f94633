"""`tierwise train` in processes that were launched together, and what they refuse to do together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.train.scale_out_launch import launch
from train.commands.rl import main
from train.processes import Processes, TogetherError
from train.recipe import RlSettings, load_recipe
from train.run_directory import read_metrics
from train.scale_out import Wrapping, spread_out


@pytest.mark.training
@pytest.mark.timeout(300)
def test_the_command_line_goes_on_alone_with_what_two_did(tmp_path: Path) -> None:
    """`tierwise train sft` under accelerate, FSDP2, real verifiers: every line is recorded once, the first process
    alone says that it is done, and `rl` in one process goes on from there."""
    few = {"sft.num_steps": 2, "rl.num_steps": 1, "rl.groups_per_step": 2, "evaluation.num_items": 2}
    settings = [word for name, value in few.items() for word in ("--set", f"{name}={value}")]
    out = tmp_path / "run"
    said = launch(
        None, "train", "sft", "r0", "--out", out, "--wrapping", "fsdp2", *settings, module="tierwise"
    )
    assert said.count("done;") == 1
    seen = [(line["phase"], line["step"]) for line in read_metrics(out)]
    assert seen == [("evaluation", 0), ("sft", 1), ("sft", 2), ("evaluation", 2)]
    assert main(["r0", "--out", str(out), "--resume", *settings]) == 0
    assert [line["phase"] for line in read_metrics(out)][4:] == ["rl", "evaluation"]


def test_a_server_of_rollouts_is_refused() -> None:
    """Several processes do not push to one server: they say so, and what to do."""
    recipe = load_recipe("r0").model_copy(
        update={"rl": RlSettings.model_construct(rollouts_url="http://127.0.0.1:1")}
    )
    parts: Any = None
    with pytest.raises(TogetherError, match="run it in one process"):
        spread_out(parts, recipe, Together(), Wrapping.DDP)


def test_a_gpu_is_refused() -> None:
    """Nobody has tried several processes on GPUs: they say so, and what to do."""
    parts: Any = None
    with pytest.raises(TogetherError, match="run it in one process"):
        spread_out(parts, load_recipe("r0", overrides={"device": "cuda"}), Together(), Wrapping.DDP)


class Together(Processes):
    """The first of two, who are not there."""

    def __init__(self) -> None:
        super().__init__(None)
        self.num = 2
