"""`tierwise bench budget` on a gateway that it starts, for a few seconds: every request is answered and counted."""

from __future__ import annotations

import json

import pytest

from loadtests.budget_bench import main

SHORT = ["--rate", "20", "--before", "4", "--after", "6", "--window", "5"]


def test_a_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Both tiers answer, and the verdict is the status."""
    status = main([*SHORT, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["num_errors"] == 0
    assert told["num_answers"] > 120
    assert 0.05 < told["share"] < 0.8
    assert status == (0 if told["is_held"] else 1)


def test_wrong_use() -> None:
    """A target is a share."""
    with pytest.raises(SystemExit, match="2"):
        main(["--target", "2"])
