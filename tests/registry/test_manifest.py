"""The manifest: digests that hold, paths that stay inside, fields that are not guessed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from serving.registry.manifest import Description, FileEntry, Manifest, content_digest, digest

FILE = FileEntry(path="model.gguf", sha256="0" * 64, size_bytes=7)


def manifest(description: Description, **fields: Any) -> Manifest:
    """The manifest that a store would write."""
    measured = {
        "version": "1",
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "recipe_sha256": digest(description.recipe),
        "content_sha256": content_digest(description, [FILE]),
        "files": (FILE,),
    }
    return Manifest(**dict(description) | measured | fields)


def test_manifest_round_trips(describe: Callable[..., Description]) -> None:
    """What is written to disk reads back equal, numbers and nested recipes included."""
    written = manifest(
        describe(
            parents=[{"name": "base", "version": "2", "role": "quantised_from"}],
            recipe={"steps": [1, 2.5, None], "nested": {"ü": True}},
            metrics={"arithmetic": {"pass_at_1": 0.1}},
        )
    )
    assert Manifest.model_validate_json(written.model_dump_json()) == written


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("recipe", {"seed": 1}),
        ("metrics", {"d": {"m": 0.5}}),
        ("licence", "MIT"),
        ("kind", "draft"),
        ("tokenizer_sha256", "a" * 64),
        ("files", (FILE.model_copy(update={"sha256": "1" * 64}),)),
    ],
)
def test_a_change_to_anything_published_breaks_the_digest(
    describe: Callable[..., Description], field: str, value: object
) -> None:
    """A manifest whose content was altered after publishing does not validate."""
    with pytest.raises(ValidationError, match="sha256 is not the hash"):
        manifest(describe(), **{field: value})


def test_date_and_version_are_not_content(describe: Callable[..., Description]) -> None:
    """The same content published later, or under another version, has the same digest."""
    later = manifest(describe(), version="2", created_at=datetime(2027, 1, 1, tzinfo=UTC))
    assert later.content_sha256 == manifest(describe()).content_sha256


@given(
    st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
)
def test_digest_does_not_depend_on_order(value: dict[str, object]) -> None:
    """Two spellings of one JSON value have one digest."""
    assert digest(value) == digest(dict(reversed(list(value.items()))))


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "a/../../x", "", ".", "a//b", "./a", "a/", "a\\b", "a\0b", "manifest.json"],
)
def test_paths_that_could_lead_outside_are_refused(path: str) -> None:
    """A file's path is relative, plain, and not the manifest's own."""
    with pytest.raises(ValidationError):
        FileEntry(path=path, sha256="0" * 64, size_bytes=0)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../m"},
        {"name": "M"},
        {"name": ""},
        {"kind": "modle"},
        {"licence": ""},
        {"data_sha256": "abc"},
        {"metrics": {"d": {"m": float("nan")}}},
        {"recipe": {"lr": float("inf")}},
        {"recipe": {"path": object()}},
        {"licens": "MIT"},
        {"parents": [{"name": "a", "version": "../b", "role": "base"}]},
    ],
)
def test_descriptions_that_cannot_be_true_are_refused(
    describe: Callable[..., Description], fields: dict[str, Any]
) -> None:
    """Unknown fields, names that are paths, and numbers that are none do not pass."""
    with pytest.raises(ValidationError):
        describe(**fields)
