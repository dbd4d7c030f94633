"""`tierwise route`: the explanation says what the policy decided, in a table and as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from router.decision import Exclusion, Reason
from serving.commands import route
from serving.commands.route_explain import EXCLUSIONS, REASONS

HARD = (
    "Prove that the sum of the first n odd numbers is n^2, then derive a closed formula for the sum of cubes."
)


@pytest.fixture(autouse=True)
def _shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tierwise.toml in the working directory, no configuration in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIERWISE_CONFIG", raising=False)


def test_every_reason_and_exclusion_has_words() -> None:
    """A person is told each reason and each exclusion in words."""
    assert set(REASONS) == set(Reason)
    assert set(EXCLUSIONS) == set(Exclusion)


@pytest.mark.parametrize("argv", [["hi"], ["explain", "hi"], ["--json", "hi"]])
def test_short_and_long_form(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What begins with no sub-verb is a prompt to explain."""
    assert route.main(argv) == 0
    assert "fast" in capsys.readouterr().out


@pytest.mark.parametrize(("prompt", "arm"), [("hi", "fast"), (HARD, "full")])
def test_json(prompt: str, arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the shipped configuration small talk goes to fast and a proof to full, and the JSON holds what led there."""
    assert route.main(["explain", prompt, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["decision"]["arm"], told["decision"]["reason"]) == (arm, "best_value")
    best = max(told["candidates"], key=lambda candidate: candidate["value"])
    assert best["arm"] == arm
    assert set(told["contributions"]) >= {"reasoning", "length"}


def test_table_names_what_moved_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the chosen arm, the features that made the prompt hard, and λ."""
    assert route.main([HARD]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("full answers", "chosen", "reasoning", "λ = 500"))


def test_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt that no arm may answer is explained too, with status 1 and each arm's exclusion."""
    assert route.main(["hi", "--max-cost", "0"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("refused")
    assert "costs more" in shown


def test_levers_and_earlier_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier hard turn keeps a "go on" up, and a lever of the client's overrules it."""
    assert route.main(["go on", "--turn", HARD, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["arm"] == "full"
    assert route.main(["go on", "--turn", HARD, "--json", "--service-tier", "flex"]) == 0
    decision = json.loads(capsys.readouterr().out)["decision"]
    assert (decision["arm"], decision["reason"]) == ("fast", "client_service_tier")


def test_setting_the_price_of_compute(capsys: pytest.CaptureFixture[str]) -> None:
    """λ comes from the settings where no gateway has saved one, and an option shows what another one would do."""
    for option in (["--set", "budget.price_of_compute=1e6"], ["--price-of-compute", "1e6"]):
        assert route.main([HARD, "--json", *option]) == 0
        assert json.loads(capsys.readouterr().out)["decision"]["arm"] == "fast"


@pytest.mark.parametrize(
    ("metric", "unit"), [("full_share", "strongest tier"), ("engine_seconds_per_request", "second")]
)
def test_a_price_in_the_budgets_metric(metric: str, unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """λ prices what the budget counts, and the table says what that is."""
    options = ["--set", f"budget.metric={metric}", "--set", "budget.target=0.3", "--price-of-compute", "0.9"]
    assert route.main([HARD, "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    full = next(candidate for candidate in told["candidates"] if candidate["arm"] == "full")
    price = full["expected"]["full_share"] if metric == "full_share" else full["expected"]["engine_seconds"]
    assert full["value"] == pytest.approx(full["weighed_probability"] - 0.9 * price)
    assert route.main([HARD, *options]) == 0
    assert (
        f"λ = 0.9 per {'request of the ' if metric == 'full_share' else ''}{unit}" in capsys.readouterr().out
    )


def test_prompt_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` reads the prompt from standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(HARD))
    assert route.main(["-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["arm"] == "full"


def test_unknown_model_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A model that does not exist is wrong use, and the nearest name is told."""
    assert route.main(["hi", "--model", "ful"]) == 2
    assert "did you mean 'full'?" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The verb's help lists every sub-verb; nothing at all is wrong use."""
    assert route.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in route.SUB_VERBS)
    assert route.main([]) == 2
