"""What goes wrong in a sub-verb is a line and a status; what is not known passes through."""

from __future__ import annotations

import pytest

from serving.engines.weight_delta import DeltaError
from train.commands.failures import Errors, reported
from train.domains.catalog import UnknownDomainError
from train.recipe import RecipeError
from train.run_directory import RunError


def failing(error: Exception) -> int:
    raise error


def test_work_that_goes_well_has_its_own_status() -> None:
    """And what could go wrong is not even looked up, so that a quick command imports nothing for it."""

    def looked_up() -> Errors:
        raise AssertionError("imported")

    assert reported(lambda: 130, others=looked_up) == 130


@pytest.mark.parametrize("error", [RunError("a run"), DeltaError("a base"), UnknownDomainError("a domain")])
def test_what_is_known_is_said(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error, status 1; of a class of errors the special ones too."""
    assert reported(lambda: failing(error)) == 1
    assert capsys.readouterr().err == f"tierwise: {error}\n"


def test_wrong_use_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """What the caller asked for is 2 where the sub-verb says so, and 1 where it does not."""
    assert reported(lambda: failing(RecipeError("members")), wrong_use=RecipeError) == 2
    assert reported(lambda: failing(RecipeError("members"))) == 1
    assert capsys.readouterr().err == "tierwise: members\n" * 2


def test_a_room_has_errors_of_its_own() -> None:
    """They are said like the others where they are named, and pass through elsewhere, as a defect does."""
    with pytest.raises(ZeroDivisionError):
        reported(lambda: failing(ZeroDivisionError()))
    assert reported(lambda: failing(ZeroDivisionError()), others=lambda: (ZeroDivisionError,)) == 1
