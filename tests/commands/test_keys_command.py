"""Tests of serving.commands.keys."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from serving.commands.keys import EXAMPLES, main
from serving.gateway.keys import KeyStore

Capture = pytest.CaptureFixture[str]


def test_a_key_is_printed_once_and_alone(tmp_path: Path, capsys: Capture) -> None:
    """Standard output is the key and nothing else, for a shell to capture; no later command shows it again."""
    home = ["--home", str(tmp_path)]
    assert main(["create", "app", *home]) == 0
    output = capsys.readouterr()
    key = output.out.removesuffix("\n")
    assert re.fullmatch(r"tw-[A-Za-z0-9_-]{43}", key)
    assert key not in output.err
    record = KeyStore(tmp_path / "keys.json").verify(key)
    assert record is not None
    assert record.name == "app"

    assert main(["list", *home]) == 0
    assert main(["list", "--json", *home]) == 0
    assert main(["create", "app", *home]) == 1
    assert main(["revoke", "app", *home]) == 0
    later = capsys.readouterr()
    assert "app" in later.out
    for secret in (key, key.removeprefix("tw-"), record.digest):
        assert secret not in later.out + later.err


def test_list_in_json_has_names_and_times(tmp_path: Path, capsys: Capture) -> None:
    """The oldest first."""
    home = ["--home", str(tmp_path)]
    for name in ("b", "a"):
        main(["create", name, *home])
    capsys.readouterr()
    assert main(["list", "--json", *home]) == 0
    keys = json.loads(capsys.readouterr().out)
    assert [key["name"] for key in keys] == ["b", "a"]
    assert keys[0]["created_at"] <= keys[1]["created_at"]


def test_an_admin_key_is_no_api_key(tmp_path: Path, capsys: Capture) -> None:
    """It is told apart in the list, and a gateway that needs API keys does not take it for one."""
    home = ["--home", str(tmp_path)]
    assert main(["create", "ops", "--admin", *home]) == 0
    store = KeyStore(tmp_path / "keys.json")
    record = store.verify(capsys.readouterr().out.strip())
    assert record is not None
    assert record.is_admin
    assert (store.has_any, store.has_admin) == (False, True)
    assert main(["create", "app", *home]) == 0
    assert main(["list", *home]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[-2] for line in shown.splitlines() if "/" in line] == ["/admin", "/v1"]
    assert store.has_any


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "a b"], "cannot name a key"),
        (["revoke", "nobody"], "no key named 'nobody'"),
        (["list", "--set", "gateway.nonsense=1"], "unknown key"),
    ],
)
def test_mistakes_are_one_line_and_status_1(
    tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    """No traceback, nothing on standard output."""
    assert main([*arguments, "--home", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(rf"tierwise: .*{re.escape(message)}.*\n", output.err)


def test_an_empty_list_says_how_to_begin(tmp_path: Path, capsys: Capture) -> None:
    """It is not an error to have no keys, and looking makes none."""
    assert main(["list", "--home", str(tmp_path)]) == 0
    assert "tierwise keys create NAME" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_teaches_by_examples(capsys: Capture) -> None:
    """The verb and each sub-verb show examples."""
    for verb, examples in EXAMPLES.items():
        with pytest.raises(SystemExit) as ended:
            main([*verb.split(), "--help"])
        assert ended.value.code == 0
        assert examples.strip() in capsys.readouterr().out
