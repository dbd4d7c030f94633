"""The store: atomic, idempotent, verified; what happens when two publish at once, and when one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving.registry.artifact import Artifact
from serving.registry.errors import (
    BusyError,
    ConflictError,
    CorruptArtifactError,
    InvalidManifestError,
    InvalidReferenceError,
    StorageError,
    UnknownReferenceError,
    UnsafeFileError,
)
from serving.registry.manifest import MANIFEST_NAME, Description, Manifest
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store

Publish = Callable[..., Artifact]
Describe = Callable[..., Description]
FULL_STABLE = AliasReference("full", "stable")


def flip_a_byte(path: Path) -> None:
    """Damage one byte of a file, its size unchanged."""
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def leftovers(store: Store) -> list[Path]:
    """What lies in staging."""
    return list((store.root / "staging").iterdir())


def test_published_files_load(store: Store, describe: Describe, tmp_path: Path) -> None:
    """A directory is published with its tree, and comes back by name and version."""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a.bin").write_bytes(b"a" * 10)
    (source / "sub" / "b.bin").write_bytes(b"")
    published = store.publish(source, describe(), version="v1")
    loaded = store.load("m:v1")
    assert loaded == published
    assert [(file.path, file.size_bytes) for file in loaded.manifest.files] == [
        ("a.bin", 10),
        ("sub/b.bin", 0),
    ]
    assert (loaded.weights / "sub" / "b.bin").read_bytes() == b""
    assert (source / "a.bin").exists()
    assert leftovers(store) == []


def test_version_is_the_contents_hash_where_none_is_given(publish: Publish) -> None:
    """Without a version, content names itself: the same content the same, other content otherwise."""
    first, again, other = publish(b"1"), publish(b"1"), publish(b"2")
    assert first.manifest.version == first.manifest.content_sha256[:12]
    assert again == first
    assert other.reference != first.reference


def test_publishing_the_same_twice_changes_nothing(store: Store, publish: Publish, clock: Any) -> None:
    """A second publication returns the first, date included."""
    first = publish(version="v1")
    clock.advance(days=1)
    assert publish(version="v1") == first
    assert store.references() == [ArtifactReference("m", "v1")]
    assert leftovers(store) == []


@pytest.mark.parametrize(
    ("content", "fields", "named"),
    [(b"other", {}, "files"), (b"weights", {"metrics": {"d": {"m": 1.0}}}, "metrics")],
)
def test_a_version_never_changes(
    store: Store, publish: Publish, content: bytes, fields: Any, named: str
) -> None:
    """Other content under a published version is refused, and what differs is named."""
    first = publish(version="v1")
    with pytest.raises(ConflictError, match=rf"m:v1 .*\({named} differ\).*choose another version"):
        publish(content, version="v1", **fields)
    assert store.load("m:v1") == first
    assert leftovers(store) == []


def test_a_version_taken_in_the_meantime_never_changes(
    store: Store, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer takes the version after the first look and before the rename: it keeps it."""
    others = Store(store.root)
    source = tmp_path / "others.gguf"
    source.write_bytes(b"theirs")

    def take_it(manifest: Manifest) -> None:
        others.publish(
            source, Description(**{f: getattr(manifest, f) for f in Description.model_fields}), version="v1"
        )

    monkeypatch.setattr(store, "_make_way", take_it)
    with pytest.raises(ConflictError, match="files differ"):
        publish(b"mine", version="v1")
    assert (store.load("m:v1").directory / "others.gguf").read_bytes() == b"theirs"


def test_staged_files_are_renamed_not_copied(store: Store, describe: Describe) -> None:
    """What was written into a staging directory is the very file that is served."""
    with store.stage() as staged:
        (staged / "model.gguf").write_bytes(b"weights")
        inode = (staged / "model.gguf").stat().st_ino
        artifact = store.commit(staged, describe())
    assert artifact.weights.stat().st_ino == inode


def test_moving_takes_the_file_without_copying_it(store: Store, describe: Describe, tmp_path: Path) -> None:
    """A moved source is gone afterwards, and its bytes were not written again."""
    source = tmp_path / "model.gguf"
    source.write_bytes(b"weights")
    inode = source.stat().st_ino
    artifact = store.publish(source, describe(), transfer="move")
    assert artifact.weights.stat().st_ino == inode
    assert not source.exists()


def test_a_failed_move_leaves_the_source(
    store: Store, describe: Describe, publish: Publish, tmp_path: Path
) -> None:
    """Where publishing fails, moving has taken nothing away."""
    publish(b"first", version="v1")
    source = tmp_path / "second.gguf"
    source.write_bytes(b"second")
    with pytest.raises(ConflictError):
        store.publish(source, describe(), version="v1", transfer="move")
    assert source.read_bytes() == b"second"


def test_parents_must_exist(publish: Publish) -> None:
    """An artifact cannot name a parent that nobody can look up; the nearest one is offered."""
    publish(version="v1", name="smollm2")
    with pytest.raises(UnknownReferenceError, match=r"no smolm2:v1 .*did you mean 'smollm2:v1'"):
        publish(name="child", parents=[{"name": "smolm2", "version": "v1", "role": "base"}])


@pytest.mark.parametrize("link_target", ["/etc/hostname", "model.gguf", "."])
def test_symlinks_are_refused(store: Store, describe: Describe, tmp_path: Path, link_target: str) -> None:
    """No symlink gets into an artifact: not to a file outside, not to one inside, not to a directory."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.gguf").write_bytes(b"weights")
    (source / "link").symlink_to(link_target)
    with pytest.raises(UnsafeFileError, match="link is a symlink"):
        store.publish(source, describe())
    with pytest.raises(UnsafeFileError):
        store.publish(source / "link", describe())
    assert store.references() == []


def test_what_is_no_artifact_is_refused(store: Store, describe: Describe, tmp_path: Path) -> None:
    """Nothing there, no files, a pipe, and a manifest of one's own are all told apart."""
    source = tmp_path / "source"
    with pytest.raises(UnsafeFileError, match="neither a file nor a directory"):
        store.publish(source, describe())
    source.mkdir()
    with pytest.raises(InvalidManifestError, match="files"):
        store.publish(source, describe())
    os.mkfifo(source / "pipe")
    with pytest.raises(UnsafeFileError, match="no regular file"):
        store.publish(source, describe())
    (source / "pipe").unlink()
    (source / MANIFEST_NAME).write_text("{}")
    with pytest.raises(InvalidManifestError, match="written by the registry"):
        store.publish(source, describe())
    with pytest.raises(InvalidManifestError, match="version"):
        store.publish(Path(__file__), describe(), version="../../x")


def test_a_flipped_byte_is_found_and_named(store: Store, publish: Publish) -> None:
    """Loading a damaged file says which file, what was expected, and what to do."""
    artifact = publish(version="v1")
    flip_a_byte(artifact.weights)
    with pytest.raises(
        CorruptArtifactError, match=r"model\.gguf is damaged.*published was.*verify --discard"
    ):
        store.load("m:v1")
    assert store.load("m:v1", verify=False) == artifact


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "model.gguf").unlink(), r"lacks .*model\.gguf"),
        (lambda d: (d / "model.gguf").rename(d / "other.gguf"), r"lacks .*model\.gguf"),
        (lambda d: (d / "extra").write_bytes(b""), "extra, not published"),
        (lambda d: (d / "extra").symlink_to("/etc/hostname"), "extra is a symlink"),
        (lambda d: (d / MANIFEST_NAME).unlink(), r"lacks .*manifest\.json"),
        (lambda d: (d / MANIFEST_NAME).write_text("{"), r"manifest\.json is damaged"),
        (lambda d: (d / MANIFEST_NAME).write_text('{"schema_version": 2}'), "has schema 2.*upgrade"),
        (lambda d: d.rename(d.with_name("v2")) and d.with_name("v2").rename(d.with_name("v1")), None),
    ],
)
def test_every_kind_of_damage_is_found(
    store: Store, publish: Publish, damage: Callable[[Path], object], message: str | None
) -> None:
    """Files missing, renamed, added or replaced by links, and a broken manifest; a mere move and back is none."""
    artifact = publish(version="v1")
    damage(artifact.directory)
    if message is None:
        assert store.load("m:v1") == artifact
    else:
        with pytest.raises(CorruptArtifactError, match=message):
            store.load("m:v1")


def test_a_manifest_in_anothers_place_is_damage(store: Store, publish: Publish) -> None:
    """An artifact copied to another version's directory is not taken for it."""
    artifact = publish(version="v1")
    artifact.directory.rename(artifact.directory.with_name("v2"))
    with pytest.raises(CorruptArtifactError, match="is the manifest of m:v1, not of m:v2"):
        store.load("m:v2")


@pytest.mark.parametrize("file", ["model.gguf", MANIFEST_NAME])
def test_publishing_again_heals(store: Store, publish: Publish, file: str) -> None:
    """The same content replaces a damaged copy of itself."""
    artifact = publish(version="v1")
    (artifact.directory / file).chmod(0o644)
    (artifact.directory / file).write_bytes(b"{}")
    publish(version="v1")
    assert store.load("m:v1").weights.read_bytes() == b"weights"
    assert leftovers(store) == []


def test_discarding_removes_the_bytes_too(store: Store, publish: Publish) -> None:
    """A discarded artifact is gone from the list and from the disk."""
    artifact = publish(version="v1")
    store.discard(artifact.reference)
    assert store.references() == []
    assert not list(store.root.rglob("*.gguf"))


def test_unknown_references_name_the_nearest(store: Store, publish: Publish, tmp_path: Path) -> None:
    """What cannot be found is answered with what could have been meant, or where to look."""
    artifact = publish(version="v1", name="smollm2")
    with pytest.raises(UnknownReferenceError, match="did you mean 'smollm2:v1'"):
        store.load("smolm2:v1")
    with pytest.raises(UnknownReferenceError, match="tierwise registry list"):
        store.load("x:y")
    with pytest.raises(UnknownReferenceError, match="none exist yet"):
        store.load("full@stable")
    with pytest.raises(InvalidReferenceError):
        store.load("smollm2")
    store.aliases.point(FULL_STABLE, artifact.reference, by="test")
    with pytest.raises(UnknownReferenceError, match="did you mean 'full@stable'"):
        store.load("ful@stable")
    store.discard(artifact.reference)
    with pytest.raises(
        UnknownReferenceError, match="full@stable points at smollm2:v1, which is not in the registry"
    ):
        store.load("full@stable")


def test_model_paths(store: Store, publish: Publish, tmp_path: Path) -> None:
    """A tier's `model` leads to a file: through an alias, a version, or as the path it is."""
    artifact = publish(version="v1")
    store.aliases.point(FULL_STABLE, artifact.reference, by="test")
    own = tmp_path / "own.gguf"
    own.write_bytes(b"")
    assert store.model_path("full@stable") == store.model_path("m:v1") == artifact.directory / "model.gguf"
    assert store.model_path(str(own)) == own
    with pytest.raises(UnknownReferenceError, match=r"no file .*none\.gguf"):
        store.model_path(str(tmp_path / "none.gguf"))


def test_reading_writes_nothing(store: Store, publish: Publish) -> None:
    """Loading works, and verifies, where the registry cannot be written: no lock, no directory is made."""
    artifact = publish(version="v1")
    store.aliases.point(FULL_STABLE, artifact.reference, by="test")
    (store.root / "lock").unlink()
    before = sorted(store.root.rglob("*"))
    store.load("full@stable")
    assert store.references() == [artifact.reference]
    assert sorted(store.root.rglob("*")) == before


def test_what_the_system_refuses_has_a_remedy(tmp_path: Path, describe: Describe) -> None:
    """A registry below a path that is a file fails with one line that says where and what to do."""
    (tmp_path / "file").write_bytes(b"")
    store = Store(tmp_path / "file" / "registry")
    with pytest.raises(StorageError, match=r"file/registry.*set `home`"):
        store.publish(Path(__file__), describe())


KILLED_WHILE_WRITING = """
import sys, time
from pathlib import Path
from serving.registry.store import Store
with Store(Path(sys.argv[1])).stage() as staged:
    (staged / "model.gguf").write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_killed_while_writing_leaves_nothing(store: Store, publish: Publish) -> None:
    """SIGKILL in the middle of a publication: nothing is visible, and the next writer removes the ruins."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_WRITING, store.root], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        assert store.sweep() == []  # while it lives, its files stay
        writer.kill()
    assert store.references() == []
    assert len(leftovers(store)) == 2
    publish()
    assert leftovers(store) == []


PUBLISHES_FOR_EVER = """
import itertools, os, sys
from pathlib import Path
from serving.registry.manifest import Description
from serving.registry.store import Store
store = Store(Path(sys.argv[1]))
for i in itertools.count():
    description = Description(kind="base", name="m", licence="MIT", format="gguf", recipe={"seed": sys.argv[2], "i": i})
    with store.stage() as staged:
        for name in "abc":
            (staged / name).write_bytes(os.urandom(100_000))
        store.commit(staged, description)
        print(i, flush=True)
"""


def test_killed_at_any_moment_everything_visible_is_whole(store: Store) -> None:
    """Writers killed at odd moments: each artifact that can be seen verifies, and nothing stays in staging."""
    for i in range(6):
        argv = [sys.executable, "-c", PUBLISHES_FOR_EVER, str(store.root), str(i)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.0137 * i)
            writer.send_signal(signal.SIGKILL)
    assert len(store.references()) >= 6
    for reference in store.references():
        store.load(reference)
    store.sweep()
    assert leftovers(store) == []


PUBLISHES_THE_SAME = """
import sys
from pathlib import Path
from serving.registry.manifest import Description
from serving.registry.store import Store
store = Store(Path(sys.argv[1]))
with store.stage() as staged:
    (staged / "model.gguf").write_bytes(b"x" * 1_000_000)
    print("ready", flush=True)
    sys.stdin.readline()
    print(store.commit(staged, Description(kind="base", name="m", licence="MIT", format="gguf")).reference)
"""


def test_two_processes_publish_the_same_at_once(store: Store) -> None:
    """Both succeed with one and the same artifact."""
    argv = [sys.executable, "-c", PUBLISHES_THE_SAME, str(store.root)]
    writers = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    published = {writer.communicate()[0] for writer in writers}
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert published == {f"{reference}\n" for reference in store.references()}
    assert len(published) == 1
    store.load(store.references()[0])
    assert leftovers(store) == []


def test_a_held_lock_is_named_after_a_while(
    store: Store, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for another process ends with an error that names the lock."""
    monkeypatch.setattr("serving.registry.store._LOCK_TIMEOUT_S", 0.06)
    with store.locked(), pytest.raises(BusyError, match=f"held {store.root / 'lock'}"):
        publish()
