"""`tierwise train eval` of a run says what the run said of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from train.commands import eval as eval_command
from train.commands import run as run_command
from train.domains.catalog import get
from train.evaluate import held_out
from train.run_directory import read_metrics

NUM_ITEMS = 4


@pytest.mark.training
@pytest.mark.timeout(300)
def test_a_run_with_modes_is_read_as_it_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers may be as long as in the run and are read without their mode, so scores and lengths are the same."""
    few = {
        "base.width": 32,
        "base.num_layers": 1,
        "domains": '[{name = "terse_addition", levels = [1]}]',
        "sft.num_steps": 2,
        "rl.num_steps": 0,
        "evaluation.num_items": NUM_ITEMS,
    }
    words = [word for name, value in few.items() for word in ("--set", f"{name}={value}")]
    assert (
        run_command.main(["r3", "--out", str(tmp_path / "run"), "--home", str(tmp_path / "home"), *words])
        == 0
    )
    capsys.readouterr()
    asked = [str(tmp_path / "run"), "--items", str(NUM_ITEMS), "--home", str(tmp_path / "home"), "--json"]
    assert eval_command.main(asked) == 0
    found = json.loads(capsys.readouterr().out)["domains"]
    told = read_metrics(tmp_path / "run")[-1]["evaluation"]["domains"]
    assert {row["domain"]: (row["greedy"], row["mean_tokens"]) for row in found} == {
        row["domain"]: (row["greedy"], row["mean_tokens"]) for row in told
    }
    # a policy that knows nothing babbles on to the limit, which is that of work and not of the item alone
    items = held_out(get("terse_addition"), (1,), NUM_ITEMS)
    assert told[0]["mean_tokens"] > max(item.max_answer_tokens for item in items)
