"""A student released with the code: the fast tier is made of it, the full tier as without it, and never half of it."""

from __future__ import annotations

import functools
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, dequantize, quantize

from serving.bringup.materialize import BASE_ROLE, BASE_SHA256
from serving.bringup.packaged import SMOLLM2
from serving.bringup.release import ensure_released
from serving.engines import layers_delta, student_delta
from serving.engines.layers_delta import write_layers_delta
from serving.engines.student_delta import write_student_delta
from serving.registry.errors import UnknownReferenceError
from serving.registry.manifest import Description, Parent
from serving.registry.store import Store

NAME = "blk.1.attn_q.weight"
IN_STUDENT = "blk.0.attn_q.weight"
"""Its only layer is the base's second."""


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "Two.Q4_1.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_1)
    writer.add_block_count(2)
    writer.add_chat_template("packaged template")
    writer.add_token_list(["<s>", "x"])
    random, kind = np.random.default_rng(0), GGMLQuantizationType.Q4_1
    for layer in range(2):
        weights = quantize(random.standard_normal((64, 64), np.float32), kind)
        writer.add_tensor(f"blk.{layer}.attn_q.weight", weights, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def differences() -> Any:
    """The policy's to its base, and the student's."""
    return np.random.default_rng(1).standard_normal((2, 64, 64), np.float32)


@pytest.fixture
def released(tmp_path: Path, two_layers: Path, toy: Any, report: Any, differences: Any) -> Any:
    """A model with a policy on it and a student of that, as they lie in a registry."""
    model = replace(
        toy.model,
        gguf_sha256=hashlib.sha256(two_layers.read_bytes()).hexdigest(),
        gguf_bytes=two_layers.stat().st_size,
    )
    elsewhere = Store(tmp_path / "elsewhere")
    ensure_released(elsewhere, base=two_layers, report=report, model=model)
    base = elsewhere.load("base@stable").manifest
    parents = (Parent(name=base.name, version=base.version, role=BASE_ROLE),)
    recipe = {"step": "any", BASE_SHA256: base.files[0].sha256}
    common = Description(
        kind="policy",
        name="policy",
        parents=parents,
        recipe=recipe,
        licence="MIT",
        format=layers_delta.FORMAT,
    )
    places = {}
    with elsewhere.stage() as staged:
        write_layers_delta(staged / layers_delta.FILE_NAME, {NAME: differences[0]}, quantization="Q8_0")
        policy = elsewhere.commit(staged, common)
    teacher = Parent(name="policy", version=policy.manifest.version, role="teacher")
    of_student = {
        "kind": "student",
        "name": "small",
        "parents": (*parents, teacher),
        "format": student_delta.FORMAT,
    }
    with elsewhere.stage() as staged:
        changed = {NAME: differences[1]}
        write_student_delta(staged / student_delta.FILE_NAME, (1,), changed, quantization="Q8_0")
        student = elsewhere.commit(staged, common.model_copy(update=of_student))
    for role, artifact in (("policy", policy), ("student", student)):
        places[role] = tmp_path / "released" / role
        shutil.copytree(artifact.directory, places[role])
    return replace(model, **places)


@pytest.fixture
def ensure(store: Store, two_layers: Path, report: Any, released: Any) -> Any:
    return functools.partial(ensure_released, store, base=two_layers, report=report, model=released)


def weights_of(store: Store, reference: str, name: str) -> Any:
    reader = GGUFReader(store.load(reference).weights)
    (tensor,) = [each for each in reader.tensors if each.name == name]
    return dequantize(tensor.data, tensor.tensor_type)


def test_fast_is_the_student_and_full_the_policy(store: Store, ensure: Any, differences: Any) -> None:
    """Two kinds behind two aliases: the student has one layer, the base's second and its own difference."""
    ensure()
    base = weights_of(store, "base@stable", NAME)
    full, fast = store.load("full@stable"), store.load("fast@stable")
    assert (full.manifest.kind, fast.manifest.kind) == ("policy", "student")
    assert (full.manifest.quantization, fast.manifest.quantization) == ("Q8_0", "Q4_0")
    assert len(GGUFReader(fast.weights).tensors) == 1
    for alias, name, place, steps in (("full", NAME, 0, 127), ("fast", IN_STUDENT, 1, 8)):
        expected = base + differences[place]
        bound = (np.abs(expected).max() / steps + np.abs(differences[place]).max() / 127) * 1.01
        assert np.abs(weights_of(store, f"{alias}@stable", name) - expected).max() <= bound


def test_it_is_published_with_its_policy(store: Store, ensure: Any, released: Any) -> None:
    """Both under the versions that they were released with, to the byte; a second call does nothing."""
    ensure()
    for place, file in ((released.policy, "weights.delta"), (released.student, "student.delta")):
        (found,) = [
            store.directory(each) for each in store.references() if (store.directory(each) / file).exists()
        ]
        assert (found / file).read_bytes() == (place / file).read_bytes()
        assert found.name in (place / "manifest.json").read_text()
    before = store.references()
    ensure()
    assert store.references() == before


def test_without_one_nothing_is_different(store: Store, ensure: Any, released: Any, tmp_path: Path) -> None:
    """Both tiers are the policy's, as before there was a student; once one comes the release's alias follows, and the
    other stays."""
    ensure(model=replace(released, student=tmp_path / "nothing"))
    full = store.resolve("full@stable")
    assert store.load("fast@stable").manifest.kind == "policy"
    ensure()
    assert store.load("fast@stable").manifest.kind == "student"
    assert store.resolve("full@stable") == full


def test_a_student_whose_policy_is_missing_is_refused(
    store: Store, ensure: Any, released: Any, tmp_path: Path
) -> None:
    """A student alone is half a release: nothing leads to it."""
    with pytest.raises(UnknownReferenceError, match="no policy:"):
        ensure(model=replace(released, policy=tmp_path / "nothing"))
    assert not any(reference.name.startswith("small") for reference in store.references())


def test_the_shipped_model_has_a_place_for_one() -> None:
    """Beside the policy's."""
    assert SMOLLM2.policy is not None
    assert SMOLLM2.student == SMOLLM2.policy.with_name("student")
