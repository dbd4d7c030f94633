"""`tierwise route`: the explanation says what the policy decided, in a table and as JSON, whatever the model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from router.decision import Exclusion, Reason
from serving.commands import route
from serving.commands.route_explain import EXCLUSIONS, REASONS

HARD = (
    "Prove that the sum of the first n odd numbers is n^2, then derive a closed formula for the sum of cubes."
)
RELEASED = Path(__file__).parents[2] / "router/data/router.npz"


@pytest.fixture(autouse=True)
def _shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tierwise.toml in the working directory, no configuration in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIERWISE_CONFIG", raising=False)


@pytest.fixture(params=["heuristic", str(RELEASED)], ids=["heuristic", "released"])
def model(request: pytest.FixtureRequest) -> list[str]:
    """Options that name a difficulty model: the one without outcomes, and the released one."""
    return ["--set", f"router.artifact={request.param}"]


def explained(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    """What is told as JSON."""
    assert route.main(["explain", *argv, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def open_to(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The arms that nothing stands against."""
    return [candidate for candidate in told["candidates"] if candidate["excluded"] is None]


def test_every_reason_and_exclusion_has_words() -> None:
    """A person is told each reason and each exclusion in words."""
    assert set(REASONS) == set(Reason)
    assert set(EXCLUSIONS) == set(Exclusion)


@pytest.mark.parametrize("argv", [["hi"], ["explain", "hi"], ["--json", "hi"]])
def test_short_and_long_form(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What begins with no sub-verb is a prompt to explain."""
    assert route.main(argv) == 0
    assert "fast" in capsys.readouterr().out


@pytest.mark.parametrize("prompt", ["hi", HARD])
def test_the_arm_of_greatest_value_answers(
    prompt: str, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the arms left open the one of greatest `p − λ·price` is chosen, and the JSON holds what led there."""
    told = explained(capsys, prompt, *model)
    for candidate in told["candidates"]:
        price = told["price_of_compute"] * candidate["expected"]["cost"]
        assert candidate["value"] == pytest.approx(candidate["weighed_probability"] - price)
    best = max(open_to(told), key=lambda candidate: candidate["value"])
    assert told["decision"]["arm"] == best["arm"]
    assert set(told["contributions"]) >= {"reasoning", "length"}


@pytest.mark.parametrize(("prompt", "arm"), [("hi", "fast"), (HARD, "full")])
def test_without_outcomes(prompt: str, arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped configuration, before there is a fitted model: small talk goes to fast and a proof to full."""
    decision = explained(capsys, prompt)["decision"]
    assert (decision["arm"], decision["reason"]) == (arm, "best_value")


def test_table_names_what_moved_it(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the chosen arm, the feature that counts most, λ, and the model."""
    told = explained(capsys, HARD, *model)
    most = max(told["contributions"].items(), key=lambda item: abs(item[1]))[0]
    assert route.main([HARD, *model]) == 0
    shown = capsys.readouterr().out
    decision = told["decision"]
    for words in (f"{decision['arm']} answers", "chosen", most, "λ = 500", decision["artifact_version"]):
        assert words in shown


def test_refusal(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt that no arm may answer is explained too, with status 1 and each arm's exclusion."""
    assert route.main(["hi", "--max-cost", "0", *model]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("refused")
    assert "costs more" in shown


def test_earlier_turns(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The task is in all turns: a "go on" after a hard one is judged otherwise than by itself."""
    alone, after = (explained(capsys, "go on", *turn, *model) for turn in ([], ["--turn", HARD]))
    assert after["contributions"]["reasoning"] != alone["contributions"]["reasoning"]
    p = [[c["success_probability"] for c in told["candidates"]] for told in (alone, after)]
    assert p[0] != p[1]


def test_an_earlier_turn_keeps_a_short_one_up(capsys: pytest.CaptureFixture[str]) -> None:
    """To the heuristic no turn makes a request easier."""
    assert explained(capsys, "go on", "--turn", HARD)["decision"]["arm"] == "full"


def test_levers(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A lever of the client's overrules every forecast."""
    for tier, arm in (("flex", "fast"), ("priority", "full")):
        decision = explained(capsys, HARD, "--service-tier", tier, *model)["decision"]
        assert (decision["arm"], decision["reason"]) == (arm, "client_service_tier")


@pytest.mark.parametrize("option", [["--set", "budget.price_of_compute=1e9"], ["--price-of-compute", "1e9"]])
def test_setting_the_price_of_compute(
    option: list[str], model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """λ comes from the settings where no gateway has saved one, or from an option; at a great one the cheapest answers,
    at none the likeliest."""
    dear, free = (explained(capsys, HARD, *price, *model) for price in (option, ["--price-of-compute", "0"]))
    assert dear["price_of_compute"] == 1e9
    assert dear["decision"]["arm"] == min(open_to(dear), key=lambda c: c["expected"]["cost"])["arm"]
    assert free["decision"]["arm"] == max(open_to(free), key=lambda c: c["success_probability"])["arm"]


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
    assert explained(capsys, "-") == explained(capsys, HARD)


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
