"""Aliases: labels that operators move among versions, with a history that is only ever appended to.

One file an alias, `aliases/<name>@<label>.json`, replaced atomically under the registry's lock; readers take no lock.
A rollback appends too: the targets set so far form a stack, setting pushes, rolling back pops. So two rollbacks in
a row go two targets back, and nothing that ever happened is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)

from serving.registry.durable import write_atomically
from serving.registry.errors import (
    ConflictError,
    CorruptArtifactError,
    InvalidReferenceError,
    UnknownReferenceError,
    nearest,
)
from serving.registry.reference import AliasReference, ArtifactReference, parse_alias, parse_artifact


def _as_artifact(value: object) -> ArtifactReference:
    if isinstance(value, ArtifactReference):
        return value
    try:
        return parse_artifact(str(value))
    except InvalidReferenceError as error:
        raise ValueError(str(error)) from None


Target = Annotated[ArtifactReference, PlainValidator(_as_artifact), PlainSerializer(str)]


class Change(BaseModel):
    """One line of an alias's history."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: AwareDatetime
    action: Literal["set", "rollback", "remove"]
    previous: Target | None
    """None where the alias pointed nowhere."""
    target: Target | None
    """None after `remove`."""
    by: str
    """Who: a user, or the part of tierwise that did it."""
    reason: str


class Alias(BaseModel):
    """An alias and everything that happened to it, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    changes: tuple[Change, ...] = Field(min_length=1)

    @property
    def target(self) -> ArtifactReference | None:
        """Where it points now; None once removed."""
        return self.changes[-1].target

    @property
    def earlier(self) -> tuple[ArtifactReference, ...]:
        """Where rollbacks would lead, the next one first. A rollback after `remove` brings the removed target back."""
        stack: list[ArtifactReference] = []
        for before, change in zip((None, *self.changes), self.changes, strict=False):
            if change.action == "set" and change.target is not None:
                stack.append(change.target)
            elif change.action == "rollback" and before is not None and before.action != "remove":
                stack.pop()
        return tuple(reversed(stack if self.target is None else stack[:-1]))


class Aliases:
    """The aliases below `directory`.

    Args:
        directory: where their files lie.
        guard: the registry's lock.
        require: raises for a target that is not in the registry.
        now: the clock.
    """

    def __init__(
        self,
        directory: Path,
        *,
        guard: Callable[[], AbstractContextManager[None]],
        require: Callable[[ArtifactReference], None],
        now: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._guard = guard
        self._require = require
        self._now = now

    def names(self) -> list[AliasReference]:
        """Every alias, removed ones included."""
        return sorted(parse_alias(path.stem) for path in self._directory.glob("[!.]*.json"))

    def get(self, alias: AliasReference) -> Alias | None:
        """The alias with its history, or None where there never was one.

        Raises:
            CorruptArtifactError: its file cannot be read.
        """
        path = self._path(alias)
        try:
            return Alias.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]["msg"]
            raise CorruptArtifactError(
                f"{path} is damaged ({fault}); delete it and set {alias} again"
            ) from None

    def resolve(self, alias: AliasReference) -> ArtifactReference:
        """Where the alias points.

        Raises:
            UnknownReferenceError: nowhere.
        """
        found = self.get(alias)
        if found is None or found.target is None:
            known = [str(name) for name in self.names() if name != alias]
            listed = (
                f"the aliases are {', '.join(known)}"
                if known
                else "none exist yet; `tierwise up` makes the first"
            )
            raise UnknownReferenceError(f"no alias {alias}; {nearest(str(alias), known, otherwise=listed)}")
        return found.target

    def point(
        self,
        alias: AliasReference,
        target: ArtifactReference,
        *,
        by: str,
        reason: str = "",
        only_if: Callable[[Alias | None], bool] = lambda _: True,
    ) -> bool:
        """Let `alias` point at `target`; whether that changed anything. No change leaves no line in the history.

        Args:
            alias: made where absent.
            target: a version that exists.
            by: who does it.
            reason: for whoever reads the history.
            only_if: sees the alias as it is, under the lock; False leaves it so. A compare-and-set.

        Raises:
            UnknownReferenceError: no such version.
        """
        with self._guard():
            current = self.get(alias)
            if not only_if(current) or (current is not None and current.target == target):
                return False
            self._require(target)
            self._append(alias, current, action="set", target=target, by=by, reason=reason)
            return True

    def roll_back(self, alias: AliasReference, *, by: str, reason: str = "") -> ArtifactReference:
        """Let `alias` point where it did before, and say where that is.

        Raises:
            ConflictError: it never pointed elsewhere.
            UnknownReferenceError: no such alias, or the earlier version has been removed.
        """
        with self._guard():
            current = self.get(alias)
            if current is None:
                self.resolve(alias)
            assert current is not None
            if not current.earlier:
                raise ConflictError(
                    f"{alias} has no earlier target; set one with `tierwise registry alias {alias}=…`"
                )
            target = current.earlier[0]
            self._require(target)
            self._append(alias, current, action="rollback", target=target, by=by, reason=reason)
            return target

    def remove(self, alias: AliasReference, *, by: str, reason: str = "") -> None:
        """Let `alias` point nowhere; its history stays, and a rollback brings it back.

        Raises:
            UnknownReferenceError: it points nowhere already.
        """
        with self._guard():
            self.resolve(alias)
            self._append(alias, self.get(alias), action="remove", target=None, by=by, reason=reason)

    def targets(self, *, keep: int) -> dict[AliasReference, tuple[ArtifactReference, ...]]:
        """For each alias what must stay: its target, and the next `keep` that rollbacks would lead to."""
        kept = {}
        for name in self.names():
            alias = self.get(name)
            assert alias is not None, "aliases are never deleted while the lock is held"
            kept[name] = (*([alias.target] if alias.target else []), *alias.earlier[:keep])
        return kept

    def _append(
        self,
        alias: AliasReference,
        current: Alias | None,
        *,
        action: Literal["set", "rollback", "remove"],
        target: ArtifactReference | None,
        by: str,
        reason: str,
    ) -> None:
        previous = current.target if current else None
        change = Change(at=self._now(), action=action, previous=previous, target=target, by=by, reason=reason)
        changed = Alias(changes=(*(current.changes if current else ()), change))
        self._directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(alias), changed.model_dump_json(indent=1).encode() + b"\n")

    def _path(self, alias: AliasReference) -> Path:
        return self._directory / f"{alias}.json"
