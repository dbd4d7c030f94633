"""References: the three forms, what is a path, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.registry.errors import InvalidReferenceError
from serving.registry.reference import (
    NAME_PATTERN,
    VERSION_PATTERN,
    AliasReference,
    ArtifactReference,
    PathReference,
    parse,
    parse_alias,
    parse_artifact,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("full@stable", AliasReference("full", "stable")),
        ("smollm2-135m:1f0c2b", ArtifactReference("smollm2-135m", "1f0c2b")),
        ("smollm2:v1.0-RC1", ArtifactReference("smollm2", "v1.0-RC1")),
        ("./full@stable", PathReference(Path("full@stable"))),
        ("/models/m.gguf", PathReference(Path("/models/m.gguf"))),
        ("m.gguf", PathReference(Path("m.gguf"))),
        ("~/m.gguf", PathReference(Path.home() / "m.gguf")),
        ("..", PathReference(Path(".."))),
    ],
)
def test_forms(text: str, expected: object) -> None:
    """Each way of writing a reference is read as what it looks like."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "full", "Full@stable", "full@", "@stable", "a:b:c", "a@b@c", "a b:c", "a:b\n", "-a:b", "a:b."],
)
def test_what_is_no_reference_is_refused_with_the_forms(text: str) -> None:
    """A text of none of the three forms gets an error that shows all three."""
    with pytest.raises(InvalidReferenceError, match=r"full@stable.*name:version.*\./model\.gguf"):
        parse(text)


@given(st.from_regex(NAME_PATTERN, fullmatch=True), st.from_regex(VERSION_PATTERN, fullmatch=True))
def test_artifact_references_round_trip_and_stay_one_path_component(name: str, version: str) -> None:
    """Writing and reading gives the same reference, and neither half can leave its directory."""
    reference = ArtifactReference(name, version)
    if not version.endswith(".gguf"):
        assert parse(str(reference)) == reference
    for part in (name, version):
        assert Path("root", part).parent == Path("root")
        assert part not in {".", ".."}


def test_the_wrong_form_is_told_apart() -> None:
    """Where a version is needed an alias is refused, and the other way round."""
    with pytest.raises(InvalidReferenceError, match="write name:version"):
        parse_artifact("full@stable")
    with pytest.raises(InvalidReferenceError, match="write name@label"):
        parse_alias("m:1")
