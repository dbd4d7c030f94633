"""`tierwise train` finds its sub-verbs and imports no torch to say what there is."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tierwise
from train.commands.train import SUB_VERBS, help_text, main


def test_help_names_every_sub_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """From `tierwise` itself."""
    assert tierwise.main(["train", "--help"]) == 0
    assert capsys.readouterr().out == help_text()
    assert all(f"  {verb} " in help_text() for verb in SUB_VERBS)


@pytest.mark.parametrize("verb", SUB_VERBS)
def test_each_help_teaches(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every sub-verb says how it is called."""
    module = importlib.import_module(SUB_VERBS[verb][0])
    with pytest.raises(SystemExit) as end:
        module.main(["--help"])
    assert end.value.code == 0
    assert f"usage: tierwise train {verb}" in capsys.readouterr().out


def test_a_typo_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and the nearest name."""
    assert main(["domain"]) == 2
    assert "did you mean `domains`?" in capsys.readouterr().err


def test_help_loads_no_torch() -> None:
    """What a person asks for first comes at once."""
    code = (
        "import sys, tierwise\n"
        "tierwise.main(['train', '--help']); print('torch' in sys.modules, file=sys.stderr)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == "False\n"
