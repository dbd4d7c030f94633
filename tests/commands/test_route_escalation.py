"""`tierwise route escalation`: reads outcomes, says whether hold-back pays, and writes what the gateway reads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import serving.commands.route_escalation as command
from router.first_tokens import FirstTokens
from router.outcomes import OutcomeRow, as_members
from router.prepared import Prepared
from serving.escalation_file import load_escalation
from serving.escalation_settings import EscalationSettings
from serving.settings_sources import SettingsError

NUM = 240


def rows(*, tells: bool) -> list[OutcomeRow]:
    """Two arms on prompts of one difficulty; where it tells, a wavering fast arm is a wrong one."""
    rng = random.Random(0)
    made = []
    for number in range(NUM):
        is_sure = rng.random() < 0.5
        successes = {"fast": is_sure if tells else rng.random() < 0.5, "full": rng.random() < 0.8}
        for arm, success in successes.items():
            margin = 3.0 if is_sure else 0.2
            row = OutcomeRow(
                prompt_id=f"p{number}",
                domain="d",
                level=0,
                prompt=f"{number} {rng.random()}",
                arm=arm,
                model=arm,
                success=success,
                answer="",
                num_input_tokens=20 + number % 7,
                num_output_tokens=16,
                cost=(20 + number % 7 + 4 * 16) / 1e6 * (5 if arm == "full" else 1),
                created_at=0.0,
                first_tokens=FirstTokens(logprobs=(-0.5,) * 16, margins=(margin + rng.random() / 9,) * 16),
            )
            made.append(row)
    return made


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command on rows; the forecasts, which are tested elsewhere, are half and four fifths."""

    def forecast(prepared: Prepared, _: Any, **__: Any) -> Any:
        return np.tile([0.5, 0.8], (len(prepared.table), 1))

    monkeypatch.setattr(command, "predict_held_out", forecast)

    def run(made: list[OutcomeRow], *argv: str) -> tuple[int, str, str]:
        path = tmp_path / "outcomes.jsonl"
        path.write_bytes(b"".join(orjson.dumps(as_members(row)) + b"\n" for row in made))
        status = command.main([str(path), *argv])
        return status, *capsys.readouterr()

    return run


def test_tokens_that_tell_pay(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """Where tokens settle the answer the report says so, and the saved model is what the gateway loads."""
    saved = tmp_path / "escalation.json"
    status, shown, _ = run(rows(tells=True), "--json", "--save", str(saved))
    assert status == 0
    told = json.loads(shown)
    assert told["num_prompts"] == NUM
    assert {(each["metric"], each["num_tokens"]) for each in told["reports"]} == {
        (metric, num) for metric in ("cost_per_request", "full_share") for num in (2, 4, 8, 16)
    }
    assert all(each["pays"] for each in told["reports"])
    model = load_escalation(EscalationSettings(enabled=True, model=saved, max_tokens=9))
    (pair,) = model.pairs
    assert (pair.first, pair.next, pair.num_tokens) == ("fast", "full", 8)
    assert pair.gain(0.5, 0.8, 0.2) > 0.3
    assert pair.gain(0.5, 0.8, 3.0) < 0.1


def test_tokens_that_tell_nothing(run: Callable[..., tuple[int, str, str]]) -> None:
    """The table has a line for each commit point, and the verdict claims nothing."""
    status, shown, _ = run(rows(tells=False))
    assert status == 0
    assert shown.count("does not pay") == 2
    assert shown.count("cost ") >= 4


def test_outcomes_without_tokens(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """Old files, without a word on first tokens, and arms that are not there, are told; so is a missing file."""
    old = [OutcomeRow(**{**members, "first_tokens": None}) for members in map(as_members, rows(tells=True))]
    for made, argv in ((old, []), (rows(tells=True), ["--first", "small"])):
        status, _, told = run(made, *argv)
        assert status == 1
        assert "0 prompts" in told
    assert command.main([str(tmp_path / "none.jsonl")]) == 1


def test_the_released_model_is_what_the_settings_take(tmp_path: Path) -> None:
    """Off there is none; on, that of the released tiers with at most the tokens allowed; a bad file is told."""
    assert load_escalation(EscalationSettings()).pairs == ()
    (pair,) = load_escalation(EscalationSettings(enabled=True)).pairs
    assert (pair.first, pair.next, pair.num_tokens) == ("fast", "full", 8)
    assert load_escalation(EscalationSettings(enabled=True, max_tokens=1)).pairs == ()
    bad = tmp_path / "bad.json"
    for told in ("[]", '{"version": 9}', "no"):
        bad.write_text(told)
        with pytest.raises(SettingsError, match=r"router\.escalation\.model"):
            load_escalation(EscalationSettings(enabled=True, model=bad))
    with pytest.raises(ValueError, match="lies between"):
        EscalationSettings(lowest_probability=0.9, highest_probability=0.1)
