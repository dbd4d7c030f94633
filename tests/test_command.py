"""`tierwise`: verbs are found, typos get a hint, and a reader that has seen enough is no error."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tierwise


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """With nothing to do, what there is is told."""
    assert tierwise.main([]) == 0
    told = capsys.readouterr().out
    assert all(f"  {verb} " in told for verb in tierwise.VERBS)


def test_a_typo_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and the nearest verb."""
    assert tierwise.main(["regstry"]) == 2
    assert "did you mean `registry`?" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """`tierwise … | head` ends quietly, however much there was to say."""
    code = (
        "import sys, tierwise, types\n"
        "verb = types.ModuleType('verb'); verb.main = lambda argv: print('line\\n' * 100_000) or 0\n"
        "sys.modules['verb'] = verb; tierwise.VERBS['talk'] = ('verb', '')\n"
        "sys.exit(tierwise.main(['talk']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as talking:
        assert talking.stdout is not None
        assert talking.stderr is not None
        talking.stdout.readline()
        talking.stdout.close()
        assert talking.stderr.read() == ""
    assert talking.returncode == 141
