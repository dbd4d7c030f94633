"""Whatever is evaluated is opened the same way, known by its weights, and leaves the registry as it was."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch

from distill.examine import engine_file
from distill.lineage import domains_of, source_of
from distill.packing import Form, pack
from distill.quantization import compressed_tensors
from distill.quantization.activations import linear_maps
from distill.quantization.types import TYPES, IntegerType
from distill.quantize import with_weights
from distill.subject import Server, opened
from serving.bringup.materialize import materialize
from serving.engines.base import Endpoint
from serving.registry.manifest import Description, Parent
from tests.distill.student_run import DOMAIN, SHAPE, Made
from tests.train.test_publish import quiet
from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.model.weights import load_llama, state_of
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Sampler, SampleRequest, Sampling

torch.set_num_threads(1)


def test_a_run_is_its_student(made: Made) -> None:
    """By the run's name and by its directory: the same weights, to the bit, and the same hash."""
    with (
        opened(str(made.run), made.store, quiet()) as run,
        opened(f"{made.run}/student", made.store, quiet()) as same,
    ):
        assert run.sha256 == same.sha256
        assert run.model is not None
        for name, weight in state_of(made.student).items():
            assert torch.equal(state_of(run.model)[name], weight)


def test_a_gguf_and_an_artifact(made: Made) -> None:
    """Both are computed by the numbers that their weights stand for; the hash is the file's; nothing is published."""
    served = pack(made.run, Form(), made.store, quiet()).served
    before = made.store.references()
    with opened(str(served), made.store, quiet()) as student:
        assert student.sha256 == hashlib.sha256(served.read_bytes()).hexdigest()
        assert student.model is not None
        assert student.model.shape.num_layers == made.student.shape.num_layers
    with opened(str(made.base.reference), made.store, quiet()) as base:
        assert base.sha256 == made.base.manifest.files[0].sha256
        assert base.model is not None
        assert base.model.shape == SHAPE
        assert engine_file(base, made.home, made.store, quiet(), quantization="Q8_0") == made.base.weights
    assert made.store.references() == before
    assert not base.start.exists()


def published(made: Made) -> str:
    """The student as a difference in the registry, without a gate."""
    packed = pack(made.run, Form(), made.store, quiet())
    base = made.base.manifest
    description = Description(
        kind="student",
        name="small",
        parents=(Parent(name=base.name, version=base.version, role="base"),),
        recipe={"base_sha256": base.files[0].sha256, "recipe": {"domains": [{"name": "gcd"}]}},
        licence="MIT",
        format="student-delta-1",
    )
    return str(made.store.publish(packed.artifact, description).reference)


def test_a_difference_is_made_whole_for_a_while(made: Made, tmp_path: Path) -> None:
    """A student of the registry is opened and handed to llama.cpp as serving makes it, without an artifact of it."""
    name = published(made)
    before = made.store.references()
    with opened(name, made.store, quiet()) as subject:
        assert subject.model is not None
        made_file = engine_file(subject, tmp_path / "made", made.store, quiet(), quantization="Q4_0")
        tensors = {each: GgufFile(made_file).weight(each) for each in GgufFile(made_file).tensors}
    assert made.store.references() == before
    served = materialize(
        made.store, made.store.load(name), quiet(), quantization="Q4_0", chat_template=None
    ).weights
    for each in GgufFile(served).tensors:
        assert (tensors[each] == GgufFile(served).weight(each)).all()


def test_where_it_came_from(made: Made) -> None:
    """Behind another form stands what was published first; domains are those of the run, else of the teacher."""
    name = published(made)
    whole = materialize(made.store, made.store.load(name), quiet(), quantization="Q8_0", chat_template=None)
    found = source_of(str(whole.reference), made.store, quiet())
    assert found is not None
    assert str(found.reference) == name
    assert source_of("./somewhere", made.store, quiet()) is None
    reference = str(whole.reference)
    assert [each.name for each in domains_of(str(made.run), reference, made.store, quiet())] == [DOMAIN]
    assert [each.name for each in domains_of("./x", reference, made.store, quiet())] == ["gcd"]
    assert domains_of("./x", str(made.base.reference), made.store, quiet()) == []


def test_a_server_answers_in_its_place(made: Made) -> None:
    """Then there are no weights here, and the tokenizer is what was named."""
    server = Server(Endpoint(url="http://127.0.0.1:1"), "any")
    with opened(str(made.run), made.store, quiet(), server=server) as subject:
        assert subject.model is None
        assert (subject.start / "tokenizer.json").exists()


@pytest.mark.parametrize("name", ["w8a16", "w8a8", "w4a16"])
def test_what_was_written_for_vllm(made: Made, tmp_path: Path, name: str) -> None:
    """It is the numbers that its integers stand for; activations are rounded where the type rounds them."""
    place, kind = tmp_path / name, TYPES[name]
    assert isinstance(kind, IntegerType)
    whole = load_llama(made.run / "student")
    compressed_tensors.write(state_of(whole), made.run / "student", place, kind)
    expected = with_weights(whole, compressed_tensors.read(place))
    rounding = InProcessSampler(expected, make_linear=linear_maps(SHAPE.vocab_size))
    with opened(str(place), made.store, quiet()) as subject:
        assert subject.model is not None
        found = greedy(subject.sampler)
    assert (found == greedy(InProcessSampler(expected))) != kind.rounds_activations
    assert (found == greedy(rounding)) == kind.rounds_activations


def greedy(sampler: Sampler) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    sampling = Sampling(temperature=0.0, max_tokens=6, stop_token_ids=())
    [[(span, _)]] = sampler.sample([SampleRequest((5, 9, 7), (0,))], sampling)
    return span.token_ids, span.behavior_logprobs


def test_what_is_not_computed_here(made: Made, tmp_path: Path) -> None:
    """Another quantised format is refused, and so is what is no checkpoint."""
    place = tmp_path / "other"
    shutil.copytree(made.run / "student", place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(CheckpointError, match="compressed-tensors"), opened(str(place), made.store, quiet()):
        pass
    with pytest.raises(CheckpointError, match="neither"), opened(str(tmp_path), made.store, quiet()):
        pass
