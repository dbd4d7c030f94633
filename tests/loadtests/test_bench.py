"""`tierwise bench` finds what to measure and teaches what there is."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tierwise
from loadtests.bench import SUB_VERBS, help_text, main


def test_help_names_everything_that_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """With and without asking for it, from `tierwise` itself."""
    for argv in (["bench"], ["bench", "--help"]):
        assert tierwise.main(argv) == 0
        assert capsys.readouterr().out == help_text()
    assert all(verb in help_text() for verb in SUB_VERBS)


@pytest.mark.parametrize("verb", SUB_VERBS)
def test_each_help_teaches(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """How it is called, its options with their defaults, and that programs may read the answer."""
    with pytest.raises(SystemExit) as end:
        main([verb, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in (f"usage: tierwise bench {verb}", "(default ", "--json"))
    assert callable(importlib.import_module(SUB_VERBS[verb][0]).main)


def test_a_typo_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and the nearest name."""
    assert main(["gatway"]) == 2
    assert "did you mean `gateway`?" in capsys.readouterr().err
    assert main(["xyz"]) == 2
    assert "tierwise bench --help" in capsys.readouterr().err


def test_help_loads_no_load_test() -> None:
    """A sub-verb's module, with uvloop and numpy, is imported only when it is called."""
    code = "import sys, loadtests.bench as b; b.main([]); print('numpy' in sys.modules, file=sys.stderr)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == "False\n"
