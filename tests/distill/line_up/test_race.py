"""All write in turn, in processes that are real; what was taken already is not taken again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from distill.line_up.cells import Cells
from distill.line_up.entrants import Ready
from distill.line_up.race import in_turn, race
from distill.load_test import Load
from serving.engines.base import EngineError
from tests.distill.line_up.test_standings import entrant
from tests.distill.test_load_test import Scripted, children

LOAD = Load(nums_streams=(1, 2), num_tokens=20, num_rounds=2)


def named(*models: str) -> list[Ready]:
    return [replace(entrant(model), file=Path(model)) for model in models]


def test_all_are_timed_and_rounds_are_kept(tmp_path: Path) -> None:
    """The quick one is quicker in each round; a third round is the only one that is then taken; no server is left."""
    engine, cells = Scripted(tmp_path), Cells(tmp_path / "cells")
    counted: list[None] = []
    rounds = race(
        "llama.cpp",
        engine,
        named("slow", "fast"),
        LOAD,
        cells,
        tmp_path / "logs",
        on_round=lambda: counted.append(None),
    )
    assert len(rounds) == len(counted) == 2
    for taken in rounds:
        assert set(taken) == {"slow", "fast"}
        assert taken["fast"][1] > 1.5 * taken["slow"][1]
    engine.note.unlink()
    again = race("llama.cpp", engine, named("slow", "fast"), LOAD, cells, tmp_path / "logs")
    assert again == rounds
    assert not engine.note.exists()
    three = race(
        "llama.cpp",
        engine,
        named("slow", "fast"),
        replace(LOAD, num_rounds=3),
        cells,
        tmp_path / "logs",
    )
    assert three[:2] == rounds
    assert (
        len(engine.note.read_text().splitlines()) == 2 * 2 * 3
    )  # two models, warmed up and one round, 1 + 2 streams
    assert children() == []


def test_one_that_fails_ends_it(tmp_path: Path) -> None:
    """By its label, with what the engine said; nothing is kept of the round."""
    cells = Cells(tmp_path / "cells")
    with pytest.raises(EngineError, match="broken tier does not start"):
        race("llama.cpp", Scripted(tmp_path), named("fast", "broken"), LOAD, cells, tmp_path / "logs")
    assert not cells.directory.exists()
    assert children() == []


def test_everyone_begins_once() -> None:
    """Over as many rounds as make it, and each second round runs the other way."""
    orders = [in_turn(["a", "b", "c"], number) for number in range(6)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert {order[0] for order in orders} == {"a", "b", "c"}
    assert orders[1] == orders[0][::-1]
