"""`tierwise route whatif`: the table, the JSON, the exit status, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from serving.commands.route_whatif import EXAMPLES, main
from tests.synthetic_ledger import success_at, write

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("home")
    write(made, 6000)
    return str(made)


def test_a_table_for_a_person(home: str, capsys: Capture) -> None:
    """What moves, each quantity now and then with its interval, and the shares of the arms; all known is status 0."""
    assert main(["--target", "0.2", "--home", home]) == 0
    told = capsys.readouterr().out
    assert "6,000 requests from" in told
    assert "full_share held at 0.2: 21.9% of requests would have gone elsewhere" in told
    assert re.search(r"success +0\.\d+ \(0\.\d+ to 0\.\d+\) +0\.\d+ \(", told)
    assert re.search(r"to full +41\.9% +20\.0% +-21\.9%", told)
    assert "not enough support" not in told


def test_json_for_a_program(home: str, capsys: Capture) -> None:
    """The truth is within the interval; several targets and prices, one answer each."""
    asked = ["--target", "0.2,0.6", "--price", "0.5", "--exploration-share", "0", "--json", "--home", home]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in told["answers"]] == [0.2, 0.6, None]
    then = told["answers"][0]["success"]["then"]
    assert then["low"] < success_at(0.2) < then["high"]


def test_what_is_not_known_is_said_with_its_remedy(tmp_path: Path, capsys: Capture) -> None:
    """Without grades the cost is shown, and of the success only why not: status 3."""
    write(tmp_path, 3000, graded_share=0.0)
    assert main(["--target", "0.2", "--home", str(tmp_path)]) == 3
    told = capsys.readouterr().out
    assert re.search(r"success +— +— +— +0 +0", told)
    assert re.search(r"cost of a request +\d", told)
    assert "! success: not enough support: of 3000 requests 0 have an outcome" in " ".join(told.split())


def test_a_target_out_of_reach_is_said(home: str, capsys: Capture) -> None:
    """With a lot for a fifth of requests, half of them to full, a tenth goes to full at any λ."""
    main(["--target", "0.05,0.3", "--home", home])
    told = " ".join(capsys.readouterr().out.split())
    assert "! 0.1 would be expected to be taken: at times no λ takes as little as the target" in told
    assert told.count("would be expected") == 1
    main(["--metric", "cost_per_request", "--target", "7", "--home", home])
    assert "all that is worth buying takes less" in " ".join(capsys.readouterr().out.split())


def test_a_sample_is_called_one(home: str, capsys: Capture) -> None:
    """Above the cap, how many were looked at of how many."""
    main(["--target", "0.2", "--max-requests", "2000", "--home", home])
    assert re.search(r"[12],\d{3} of 6,000 requests from .*; an even sample;", capsys.readouterr().out)


def test_no_ledger_and_no_decision_are_status_1(tmp_path: Path, home: str, capsys: Capture) -> None:
    """One line on standard error that names the remedy or the reason."""
    assert main(["--target", "0.2", "--home", str(tmp_path)]) == 1
    assert "no ledger at" in capsys.readouterr().err
    assert main(["--target", "0.2", "--since", "2001-01-01", "--home", home]) == 1
    assert capsys.readouterr().err == "tierwise: The ledger holds no decision of that time.\n"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--target", "x"],
        ["--target", "0"],
        ["--price", "-1"],
        ["--target", "0.2", "--exploration-share", "1"],
    ],
)
def test_wrong_use_is_status_2(argv: list[str], capsys: Capture) -> None:
    """Nothing asked, no number, a number that makes no sense."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_examples_run(home: str, capsys: Capture) -> None:
    """Each line of the help, without its pipe."""
    for command in re.findall(r"tierwise route whatif ([^|\n]+)", EXAMPLES):
        arguments = re.sub(r"--since \S+", "", command).split()
        assert main([*arguments, "--home", home]) in {0, 3}, command
