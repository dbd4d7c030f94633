"""How an artifact is named: `full@stable` (an alias), `smollm2:1f0c…` (a version), or a path to files of your own.

Pure: nothing here looks at the disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from serving.registry.errors import InvalidReferenceError

NAME_PATTERN = r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?"
"""Names of artifacts, and both halves of an alias: lower case, so that no file system folds two into one."""
VERSION_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"

_ARTIFACT = re.compile(f"({NAME_PATTERN}):({VERSION_PATTERN})")
_ALIAS = re.compile(f"({NAME_PATTERN})@({NAME_PATTERN})")
_FORMS = "write an alias (full@stable), a version (name:version), or a path (./model.gguf)"


@dataclass(frozen=True, slots=True, order=True)
class ArtifactReference:
    """One version of one artifact; what it means never changes."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"


@dataclass(frozen=True, slots=True, order=True)
class AliasReference:
    """A label that operators move: `full@stable`."""

    name: str
    label: str

    def __str__(self) -> str:
        return f"{self.name}@{self.label}"


@dataclass(frozen=True, slots=True)
class PathReference:
    """Files outside the registry."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Reference = ArtifactReference | AliasReference | PathReference


def parse(text: str) -> Reference:
    """Read any reference. A text with a slash, a leading dot or tilde, or the ending `.gguf` is a path.

    Raises:
        InvalidReferenceError: it is none of the three.
    """
    if "/" in text or text.startswith((".", "~")) or text.endswith(".gguf"):
        return PathReference(Path(text).expanduser())
    if match := _ALIAS.fullmatch(text):
        return AliasReference(*match.groups())
    if match := _ARTIFACT.fullmatch(text):
        return ArtifactReference(*match.groups())
    raise InvalidReferenceError(f"{text!r} is not a reference; {_FORMS}")


def parse_artifact(text: str) -> ArtifactReference:
    """Read `name:version`.

    Raises:
        InvalidReferenceError: it is not that.
    """
    reference = parse(text)
    if not isinstance(reference, ArtifactReference):
        raise InvalidReferenceError(
            f"{text!r} is not a version; write name:version, as `tierwise registry list` does"
        )
    return reference


def parse_alias(text: str) -> AliasReference:
    """Read `name@label`.

    Raises:
        InvalidReferenceError: it is not that.
    """
    reference = parse(text)
    if not isinstance(reference, AliasReference):
        raise InvalidReferenceError(f"{text!r} is not an alias; write name@label, for example full@stable")
    return reference
