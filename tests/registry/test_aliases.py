"""Aliases: history, rollback as a stack, compare-and-set, and many processes at once."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.registry.aliases import Alias, Change
from serving.registry.artifact import Artifact
from serving.registry.errors import ConflictError, CorruptArtifactError, UnknownReferenceError
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store

FULL_STABLE = AliasReference("full", "stable")
Publish = Callable[..., Artifact]


def point(store: Store, version: str, **how: Any) -> bool:
    """Let full@stable point at a version of m."""
    return store.aliases.point(FULL_STABLE, ArtifactReference("m", version), **{"by": "ann"} | how)


def target(store: Store) -> str:
    """The version that full@stable points at."""
    return store.aliases.resolve(FULL_STABLE).version


def history(store: Store) -> tuple[Change, ...]:
    """The changes of full@stable."""
    alias = store.aliases.get(FULL_STABLE)
    assert alias is not None
    return alias.changes


@pytest.fixture
def versions(publish: Publish) -> None:
    """m:v1, m:v2 and m:v3."""
    for version in ("v1", "v2", "v3"):
        publish(version.encode(), version=version)


@pytest.mark.usefixtures("versions")
def test_history_says_when_who_why_and_from_where(store: Store, clock: Any) -> None:
    """Each change appends one line, and the first lines stay as they were."""
    point(store, "v1", reason="first")
    clock.advance(hours=1)
    point(store, "v2", by="bob", reason="better at sums")
    first, second = history(store)
    assert (first.action, first.previous, str(first.target), first.by, first.reason) == (
        "set",
        None,
        "m:v1",
        "ann",
        "first",
    )
    assert (str(second.previous), str(second.target), second.by) == ("m:v1", "m:v2", "bob")
    assert (second.at - first.at).total_seconds() == 3600
    assert second.at == clock()


@pytest.mark.usefixtures("versions")
def test_rollbacks_go_back_one_target_each(store: Store) -> None:
    """Two rollbacks in a row lead two targets back, a third has nowhere to go, and the history keeps all."""
    for version in ("v1", "v2", "v3"):
        point(store, version)
    assert store.aliases.roll_back(FULL_STABLE, by="ann").version == "v2"
    assert store.aliases.roll_back(FULL_STABLE, by="ann", reason="worse too").version == target(store) == "v1"
    with pytest.raises(ConflictError, match="no earlier target"):
        store.aliases.roll_back(FULL_STABLE, by="ann")
    assert [change.action for change in history(store)] == ["set", "set", "set", "rollback", "rollback"]
    point(store, "v3")
    assert store.aliases.roll_back(FULL_STABLE, by="ann").version == "v1"


@pytest.mark.usefixtures("versions")
def test_a_removed_alias_points_nowhere_and_can_come_back(store: Store) -> None:
    """Removing hides the alias, a rollback restores it, and what was before is still before."""
    point(store, "v1")
    point(store, "v2")
    store.aliases.remove(FULL_STABLE, by="ann")
    with pytest.raises(UnknownReferenceError, match="no alias full@stable"):
        target(store)
    with pytest.raises(UnknownReferenceError):
        store.aliases.remove(FULL_STABLE, by="ann")
    assert store.aliases.roll_back(FULL_STABLE, by="ann").version == "v2"
    assert store.aliases.roll_back(FULL_STABLE, by="ann").version == "v1"


MOVES = st.lists(st.sampled_from(["v1", "v2", "v3", "rollback", "remove"]), max_size=12)


@given(MOVES)
def test_the_next_rollback_leads_where_it_says(moves: list[str]) -> None:
    """Law: after any sequence of changes, a rollback's target is `earlier[0]`, and what was earlier shifts by one."""
    changes: list[Change] = []

    def append(action: Any, target: ArtifactReference | None) -> Alias:
        previous = changes[-1].target if changes else None
        at: Any = "2026-01-01T00:00:00Z"
        changes.append(Change(at=at, action=action, previous=previous, target=target, by="", reason=""))
        return Alias(changes=tuple(changes))

    alias = append("set", ArtifactReference("m", "v0"))
    for move in moves:
        before = alias
        if move == "remove" and before.target is not None:
            alias = append("remove", None)
            assert alias.earlier == (before.target, *before.earlier)
        elif move == "rollback" and before.earlier:
            alias = append("rollback", before.earlier[0])
            assert alias.earlier == before.earlier[1:]
        elif move.startswith("v"):
            alias = append("set", ArtifactReference("m", move))
            expected = before.earlier if before.target is None else (before.target, *before.earlier)
            assert alias.earlier == expected


@pytest.mark.usefixtures("versions")
def test_what_changes_nothing_leaves_no_line(store: Store) -> None:
    """Setting an alias to where it points, or failing the condition, is no change."""
    assert point(store, "v1")
    assert not point(store, "v1")
    assert not point(store, "v2", only_if=lambda alias: alias is None)
    assert target(store) == "v1"
    assert len(history(store)) == 1
    assert point(store, "v2", only_if=lambda alias: alias is not None and str(alias.target) == "m:v1")


@pytest.mark.usefixtures("versions")
def test_targets_must_exist(store: Store) -> None:
    """An alias cannot be set, or rolled back, to what is not there."""
    with pytest.raises(UnknownReferenceError, match="no m:v9"):
        point(store, "v9")
    assert store.aliases.names() == []
    point(store, "v1")
    point(store, "v2")
    store.discard(ArtifactReference("m", "v1"))
    with pytest.raises(UnknownReferenceError, match="no m:v1"):
        store.aliases.roll_back(FULL_STABLE, by="ann")
    assert target(store) == "v2"


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize("text", ["{", "{}", '{"schema_version": 1, "changes": []}'])
def test_a_damaged_alias_file_is_named(store: Store, text: str) -> None:
    """An alias that cannot be read says which file is at fault."""
    point(store, "v1")
    (store.root / "aliases" / "full@stable.json").write_text(text)
    with pytest.raises(CorruptArtifactError, match=r"full@stable\.json is damaged"):
        target(store)


def test_the_file_is_plain_json(store: Store, publish: Publish) -> None:
    """What lies on disk can be read by anything: the target of the last change is where the alias points."""
    publish(version="v1")
    point(store, "v1", reason="why")
    written = json.loads((store.root / "aliases" / "full@stable.json").read_text())
    assert written["changes"][-1] == {
        "at": "2026-01-01T00:00:00Z",
        "action": "set",
        "previous": None,
        "target": "m:v1",
        "by": "ann",
        "reason": "why",
    }


MOVES_THE_ALIAS = """
import sys
from pathlib import Path
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store
store, me = Store(Path(sys.argv[1])), sys.argv[2]
for i in range(20):
    store.aliases.point(AliasReference("full", "stable"), ArtifactReference("m", f"{me}-{i}"), by=me)
"""


def test_many_processes_move_one_alias(store: Store, publish: Publish) -> None:
    """Four processes at once: no change is lost, each line's `previous` is the line before, readers never fail."""
    for me in "abcd":
        for i in range(20):
            publish(f"{me}{i}".encode(), version=f"{me}-{i}")
    point(store, "a-19", by="test")
    writers = [
        subprocess.Popen([sys.executable, "-c", MOVES_THE_ALIAS, str(store.root), me]) for me in "abcd"
    ]
    while any(writer.poll() is None for writer in writers):
        assert target(store)
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    changes = history(store)
    assert len(changes) == 81
    assert all(after.previous == before.target for before, after in itertools.pairwise(changes))
    for me in "abcd":
        mine = [change.target.version for change in changes if change.by == me and change.target]
        assert mine == [f"{me}-{i}" for i in range(20)]
