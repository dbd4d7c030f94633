"""What the sub-verbs that run a recipe share: how a stopped run goes on."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from train.commands.recipe_options import add_recipe_options, say_stopped


def test_a_stopped_run_is_told_the_command_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """With every --set that it was begun with, as a shell takes them: another recipe would be refused."""
    parser = argparse.ArgumentParser()
    add_recipe_options(parser, out="DIR", estimated="time")
    argv = ["r0", "--out", "runs/r0", "--set", "seed=1", "--set", 'domains=[{name="gcd", levels=[0]}]']
    args = parser.parse_args(argv)
    assert say_stopped("tierwise train run", args) == 130
    words = shlex.split(capsys.readouterr().out.partition("go on with: ")[2])
    assert words[:3] == ["tierwise", "train", "run"]
    again = parser.parse_args(words[3:])
    assert again.resume
    assert (again.recipe, again.out, again.assignments) == ("r0", Path("runs/r0"), args.assignments)
