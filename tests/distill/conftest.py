"""A student's run, made once, of which each test has a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distill.student_run import Made, copied, make


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """As `tierwise distill student` leaves it; nobody changes it."""
    return make(tmp_path_factory.mktemp("fresh"))


@pytest.fixture
def made(fresh: Made, tmp_path: Path) -> Made:
    """A copy of its own, to be published from and into."""
    return copied(fresh, tmp_path)
