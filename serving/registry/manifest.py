"""The manifest: what an artifact is, where it came from, and which bytes it consists of.

A publisher writes a `Description`; the store adds what it measured and makes the `Manifest` of it. The manifest's own
digest covers all of it but the version and the date, so that equal content is recognised and damage to the manifest
itself is seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    StringConstraints,
    model_validator,
)

from serving.registry.reference import NAME_PATTERN, VERSION_PATTERN, ArtifactReference

MANIFEST_NAME = "manifest.json"
Kind = Literal["base", "policy", "student", "draft", "router"]
KINDS: tuple[str, ...] = get_args(Kind)
MATERIALISED_FROM = "materialised_from"
"""The role of a parent of which an artifact is but another form: it can be made again, and stays as long as that."""

Name = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$", max_length=100)]
Version = Annotated[str, StringConstraints(pattern=f"^{VERSION_PATTERN}$", max_length=100)]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Word = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")]


def _inside(path: str) -> str:
    parts = path.split("/")
    if any(part in {"", ".", ".."} or "\\" in part or "\0" in part for part in parts):
        raise ValueError(
            f"{path!r} may lead outside the artifact; use a relative path without '..' or backslashes"
        )
    if path == MANIFEST_NAME:
        raise ValueError(f"{path!r} is written by the registry; give the file another name")
    return path


def _canonical(recipe: dict[str, JsonValue]) -> dict[str, JsonValue]:
    digest(recipe)  # raises for what JSON cannot spell: NaN, infinities
    return recipe


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parent(_Node):
    """An artifact that this one was made from."""

    name: Name
    version: Version
    role: Word
    """What it was for: `quantised_from`, `base`, `teacher`, `target`, …"""

    @property
    def reference(self) -> ArtifactReference:
        """Which artifact that is."""
        return ArtifactReference(self.name, self.version)


class FileEntry(_Node):
    """One file, by content."""

    path: Annotated[str, AfterValidator(_inside)]
    """Relative to the artifact's directory, with forward slashes."""
    sha256: Sha256
    size_bytes: int = Field(ge=0)


class Description(_Node):
    """What a publisher says about an artifact."""

    kind: Kind
    name: Name
    parents: tuple[Parent, ...] = ()
    recipe: Annotated[dict[str, JsonValue], AfterValidator(_canonical)] = {}
    """Everything that is needed to make it again from its parents and its data. No times, no paths of one machine."""
    data_sha256: Sha256 | None = None
    """Hash of the training data; None where none was used."""
    tokenizer_sha256: Sha256 | None = None
    licence: str = Field(min_length=1)
    """SPDX expression, for example Apache-2.0."""
    format: Word
    """`gguf`, `safetensors`, `lora`, `router`, …: what reads the files."""
    quantization: Word | None = None
    metrics: dict[str, dict[str, FiniteFloat]] = {}
    """Domain → metric → value, as measured on this artifact."""


class Manifest(Description):
    """A published artifact's `manifest.json`."""

    schema_version: Literal[1] = 1
    version: Version
    created_at: AwareDatetime
    recipe_sha256: Sha256
    content_sha256: Sha256
    """Over the description and the files; version and date left out."""
    files: tuple[FileEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _digests_hold(self) -> Self:
        if self.recipe_sha256 != digest(self.recipe):
            raise ValueError("recipe_sha256 is not the hash of the recipe")
        if self.content_sha256 != content_digest(self, self.files):
            raise ValueError("content_sha256 is not the hash of the description and the files")
        return self

    @property
    def reference(self) -> ArtifactReference:
        """`name:version`."""
        return ArtifactReference(self.name, self.version)

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(file.size_bytes for file in self.files)


def digest(value: Any) -> str:
    """SHA-256 of a JSON value in one canonical spelling: keys sorted, no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content_digest(description: Description, files: Iterable[FileEntry]) -> str:
    """The hash by which two artifacts are the same: what is said of them, and their bytes."""
    said = description.model_dump(mode="json", include=set(Description.model_fields))
    held = sorted((file.model_dump(mode="json") for file in files), key=lambda file: file["path"])
    return digest({"description": said, "files": held})
