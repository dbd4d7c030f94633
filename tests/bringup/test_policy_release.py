"""A policy released with the code: published as it is, both tiers made from it, and never half of it."""

from __future__ import annotations

import functools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, dequantize

from serving.bringup.materialize import BASE_SHA256
from serving.bringup.release import ensure_released
from serving.engines.layers_delta import FILE_NAME, FORMAT, write_layers_delta
from serving.registry.errors import CorruptArtifactError, UnknownReferenceError
from serving.registry.manifest import Description, Parent
from serving.registry.store import Store

NAME = "blk.0.attn_q.weight"


@pytest.fixture
def difference() -> Any:
    return np.random.default_rng(1).standard_normal((64, 64), np.float32)


@pytest.fixture
def released(tmp_path: Path, toy: Any, report: Any, difference: Any) -> Any:
    """The toy with a released policy on it, as `train publish` leaves it in a registry."""
    elsewhere = Store(tmp_path / "elsewhere")
    ensure_released(elsewhere, base=toy.gguf, report=report, model=toy.model)
    base = elsewhere.load("base@stable").manifest
    with elsewhere.stage() as staged:
        write_layers_delta(staged / FILE_NAME, {NAME: difference}, quantization="Q8_0")
        description = Description(
            kind="policy",
            name="full-policy",
            parents=(Parent(name=base.name, version=base.version, role="base"),),
            recipe={"step": "train", BASE_SHA256: base.files[0].sha256},
            licence="MIT",
            format=FORMAT,
        )
        artifact = elsewhere.commit(staged, description)
    place = tmp_path / "released" / "policy"
    shutil.copytree(artifact.directory, place)
    return replace(toy.model, policy=place)


@pytest.fixture
def ensure(store: Store, toy: Any, report: Any, released: Any) -> Any:
    return functools.partial(ensure_released, store, base=toy.gguf, report=report, model=released)


def weights_of(store: Store, reference: str) -> Any:
    reader = GGUFReader(store.load(reference).weights)
    (tensor,) = [each for each in reader.tensors if each.name == NAME]
    return dequantize(tensor.data, tensor.tensor_type)


def test_both_tiers_are_the_policy(store: Store, ensure: Any, difference: Any) -> None:
    """Both aliases lead to the policy in their quantisation: the base's weights and the difference."""
    ensure(chat_template="with tools")
    expected = weights_of(store, "base@stable") + difference
    for alias, quantization, steps in (("full@stable", "Q8_0", 127), ("fast@stable", "Q4_0", 8)):
        artifact = store.load(alias)
        assert (artifact.manifest.kind, artifact.manifest.quantization) == ("policy", quantization)
        roles = {parent.role: parent.name for parent in artifact.manifest.parents}
        assert roles == {"materialised_from": "full-policy", "base": "toy"}
        bound = (np.abs(expected).max() / steps + np.abs(difference).max() / 127) * 1.01
        assert np.abs(weights_of(store, alias) - expected).max() <= bound
        template = GGUFReader(artifact.weights).fields["tokenizer.chat_template"].contents()
        assert template == "with tools"


def test_the_version_is_the_released_one(store: Store, ensure: Any, released: Any) -> None:
    """What is published is what was released, to the manifest's digest."""
    ensure()
    versions = [reference.version for reference in store.references() if reference.name == "full-policy"]
    assert versions == [store.load(f"full-policy:{versions[0]}").manifest.content_sha256[:12]]
    published = store.directory(store.load(f"full-policy:{versions[0]}").reference)
    assert (published / FILE_NAME).read_bytes() == (released.policy / FILE_NAME).read_bytes()


def test_a_second_call_does_nothing(store: Store, toy: Any, released: Any, ensure: Any, report: Any) -> None:
    """Everything is found again."""
    ensure()
    references = store.references()
    report.lines.clear()
    ensure_released(store, report=report, model=released)
    assert report.lines == []
    assert store.references() == references


def test_without_one_the_tiers_are_the_base(store: Store, ensure: Any, released: Any, tmp_path: Path) -> None:
    """Where no policy lies in the directory nothing is different; once one does, the release's aliases follow."""
    ensure(model=replace(released, policy=tmp_path / "nothing"))
    assert store.load("full@stable").manifest.kind == "base"
    ensure()
    assert store.load("full@stable").manifest.kind == "policy"


def test_a_damaged_release_is_refused(store: Store, ensure: Any, released: Any) -> None:
    """A file or a manifest that is not what was released ends the bring-up, and no alias leads to it."""
    path = released.policy / FILE_NAME
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptArtifactError, match=r"weights\.delta is damaged"):
        ensure()
    (released.policy / "manifest.json").unlink()
    with pytest.raises(CorruptArtifactError, match=r"lacks .*manifest\.json"):
        ensure()
    assert not any(reference.name.startswith("full-policy") for reference in store.references())
    assert store.aliases.names() == []


def test_a_release_on_another_base_is_refused(store: Store, ensure: Any, released: Any, toy: Any) -> None:
    """The base that it names as parent has to be the one that the registry brings in."""
    other = replace(released, name="other")
    with pytest.raises(UnknownReferenceError, match="no toy:"):
        ensure(model=other)
