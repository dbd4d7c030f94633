"""Two processes step as one does."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
import torch

from tests.train import scale_out_steps as steps
from tests.train.scale_out_launch import launch
from train.learner import Learner


@pytest.mark.training
@pytest.mark.timeout(600)
def test_two_processes_step_as_one(tmp_path: Path) -> None:
    """Launched by accelerate over gloo, DDP and FSDP2, all weights, top layers and LoRA: three steps come to the
    weights and report of one process, in float64 to 1e-9, in both processes; shared-out rollouts are those of one."""
    launch(steps.__file__, tmp_path)
    for wrapping, method in steps.CASES:
        alone = steps.policy(method)
        drawn = steps.answers(alone).sample(steps.REQUESTS, steps.SAMPLING)
        learner = Learner(alone, steps.CONFIG, entropy_band=steps.band())
        reports = steps.told([learner.step(steps.groups(step)) for step in range(steps.NUM_STEPS)])
        for rank in range(2):
            found = torch.load(tmp_path / f"{wrapping}-{method}-{rank}.pt", weights_only=False)
            assert found["num"] == 2
            for one, other in zip(chain(*drawn), chain(*found["drawn"]), strict=True):
                assert one[0].token_ids == other[0].token_ids
                assert one[0].behavior_logprobs == pytest.approx(other[0].behavior_logprobs, rel=1e-9)
            for wanted, got in zip(reports, found["reports"], strict=True):
                assert got.pop("clipped") == pytest.approx(wanted["clipped"], abs=1e-6)  # a mean in float32
                rest = {name: value for name, value in wanted.items() if name != "clipped"}
                assert got == pytest.approx(rest, rel=1e-9, abs=1e-12)
            for name, weight in alone.trained().items():
                torch.testing.assert_close(found["weights"][name], weight.detach(), rtol=1e-9, atol=1e-9)
