"""A student's difference, made whole: as GGUF by serving, as safetensors for vLLM, and in llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from gguf import GGUFReader

from distill.pruning.pruned import with_layers
from distill.student_delta import low_rank, read, write
from serving.bringup.materialize import BASE_ROLE, BASE_SHA256, engine_model
from serving.engines import student_delta
from serving.engines.requantize import open_model, requantize
from serving.engines.student_delta import StudentDelta
from serving.engines.weight_delta import DeltaError
from serving.registry.artifact import Artifact
from serving.registry.manifest import Description, Parent
from serving.registry.store import Store
from tests.engines.real_engine import running
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from tests.train.test_publish import as_llama, quiet
from train.base import locate
from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
from train.model.weights import load_llama, state_of

torch.set_num_threads(1)
SHAPE = tiny_shape(
    vocab_size=80, hidden_size=64, intermediate_size=96, head_size=16, num_layers=5, max_positions=1024
)
KEPT = (0, 2, 4)


@dataclass(frozen=True)
class Made:
    store: Store
    artifact: Artifact
    student: Llama
    base: Path


@pytest.fixture(params=[None, 4], ids=["whole", "low-rank"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A student whose last layer and norm moved, published."""
    write_checkpoint(tmp_path / "tiny", SHAPE)
    convert_to_gguf(tmp_path / "tiny", tmp_path / "tiny.gguf")
    store = Store(tmp_path / "registry")
    about = Description(kind="base", name="tiny", licence="MIT", format="gguf")
    base = store.publish(tmp_path / "tiny.gguf", about)
    student = moved(with_layers(load_llama(tmp_path / "tiny"), KEPT), rank=request.param or 64)
    description = Description(
        kind="student",
        name="small",
        parents=(Parent(name="tiny", version=base.manifest.version, role=BASE_ROLE),),
        recipe={"step": "student", BASE_SHA256: base.manifest.files[0].sha256},
        licence="MIT",
        format=student_delta.FORMAT,
    )
    with store.stage() as staged:
        write(staged, student, GgufFile(base.weights), KEPT, rank=request.param, quantization="Q8_0")
        artifact = store.commit(staged, description)
    return Made(store, artifact, student, base.weights)


@torch.no_grad()
def moved(student: Llama, *, rank: int) -> Llama:
    generator = torch.Generator().manual_seed(5)
    layer = student.model.layers[-1]
    for name in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
        weight = layer.get_submodule(name).weight
        first, second = (
            torch.randn(size, generator=generator) for size in ((rank, weight.shape[1]), (len(weight), rank))
        )
        weight += 0.02 * second @ first
    student.model.norm.weight += 0.1
    return student


def near(found: Llama, student: Llama, tolerance: float) -> bool:
    assert found.shape == student.shape
    theirs = state_of(found)
    return all((theirs[name] - weight).abs().max() < tolerance for name, weight in state_of(student).items())


def test_serving_makes_a_smaller_model(made: Made, tmp_path: Path) -> None:
    """By numpy and gguf alone: so many layers, renumbered, each weight the student's but for its eight bits."""
    path = engine_model(made.store, str(made.artifact.reference), quiet(), quantization="Q8_0")
    file = GgufFile(path)
    assert file.need("llama.block_count") == len(KEPT)
    assert {name.split(".")[1] for name in file.tensors if name.startswith("blk")} == {"0", "1", "2"}
    assert near(as_llama(path, tmp_path / "whole"), made.student, 0.02)
    kinds = {made.store.load(reference).manifest.kind for reference in made.store.references()}
    assert kinds == {"base", "student"}


def test_as_safetensors_it_is_the_student(made: Made) -> None:
    """What vLLM loads: a checkpoint of so many layers, weights that did not move to the bit."""
    place = locate(str(made.artifact.reference), made.store, quiet())
    whole = load_llama(place)
    assert near(whole, made.student, 0.003)
    assert torch.equal(
        whole.model.layers[1].mlp.up_proj.weight, made.student.model.layers[1].mlp.up_proj.weight
    )


def test_it_is_read_back(made: Made, tmp_path: Path) -> None:
    """To go on from, or to be compared with what was trained."""
    found = read(made.artifact.directory, made.base, load_llama(tmp_path / "tiny"))
    assert near(found, made.student, 0.003)


def test_a_base_with_fewer_layers_is_refused(made: Made, tmp_path: Path) -> None:
    """A student that keeps a layer which the base has not is not made."""
    write_checkpoint(tmp_path / "short", tiny_shape(vocab_size=80, num_layers=2))
    convert_to_gguf(tmp_path / "short", tmp_path / "short.gguf")
    delta = StudentDelta(made.artifact.directory / student_delta.FILE_NAME)
    with pytest.raises(DeltaError, match="has 2 layers, and layer 4 is kept"):
        requantize(
            open_model(tmp_path / "short.gguf"), tmp_path / "none.gguf", quantization="Q8_0", delta=delta
        )


def test_another_number_of_layers_is_refused(made: Made, tmp_path: Path) -> None:
    """The layers that are named are the student's own."""
    for kept in ((0, 2), (4, 2, 0)):
        with pytest.raises(CheckpointError, match="name them, rising"):
            write(tmp_path, made.student, GgufFile(made.base), kept)


def test_the_nearest_of_its_rank() -> None:
    """A matrix of rank 3 is kept by rank 3; at rank 2 what is missing is its third singular value."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(9, 3, generator=generator) @ torch.randn(3, 7, generator=generator)
    values = torch.linalg.svdvals(matrix)
    for rank in (3, 2):
        product = low_rank(matrix.numpy(), rank)
        error = torch.linalg.norm(torch.from_numpy(product.second @ product.first) - matrix)
        assert float(error) == pytest.approx(float(values[rank:].norm()), abs=1e-4)


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_llama_cpp_loads_it(made: Made) -> None:
    """The engine starts on what was materialised, and answers."""
    path = engine_model(made.store, str(made.artifact.reference), quiet(), quantization="Q8_0")
    assert GGUFReader(path).get_field("llama.block_count").contents() == len(KEPT)
    with running(path) as client:
        body = {"prompt": [1, 5, 9], "max_tokens": 4, "temperature": 0}
        answer = client.post("/v1/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] >= 1
