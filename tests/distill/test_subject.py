"""Whatever is evaluated is opened the same way, known by its weights, and leaves the registry as it was."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from distill.examine import engine_file
from distill.lineage import domains_of, source_of
from distill.packing import Form, pack
from distill.quantization import compressed_tensors
from distill.quantization.activations import linear_maps, round_activations
from distill.quantization.types import TYPES, IntegerType
from distill.quantize import with_weights
from distill.subject import Server, opened, weights_sha256
from serving.bringup.materialize import materialize
from serving.engines.base import Endpoint
from serving.registry.manifest import Description, Parent
from tests.distill.student_run import DOMAIN, SHAPE, Made
from tests.train.model.test_llama import logits_of
from tests.train.test_publish import quiet
from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.model.shape import UnsupportedModelError
from train.model.weights import load_llama, state_of
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Sampler, SampleRequest, Sampling

torch.set_num_threads(1)
TOKEN_IDS = torch.tensor([5, 9, 7, 30, 2])


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
    place, kind = quantised(made, tmp_path, name), TYPES[name]
    assert isinstance(kind, IntegerType)
    expected = with_weights(load_llama(made.run / "student"), compressed_tensors.read(place))
    rounding = InProcessSampler(expected, make_linear=linear_maps(SHAPE.vocab_size))
    with opened(str(place), made.store, quiet()) as subject:
        assert subject.model is not None
        found, logits = greedy(subject.sampler), logits_of(subject.model, TOKEN_IDS)
    assert (found == greedy(InProcessSampler(expected))) != kind.rounds_activations
    assert (found == greedy(rounding)) == kind.rounds_activations
    assert torch.equal(logits, logits_of(expected, TOKEN_IDS)) != kind.rounds_activations
    round_activations(expected)
    assert torch.equal(logits, logits_of(expected, TOKEN_IDS)) == kind.rounds_activations


def greedy(sampler: Sampler) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    sampling = Sampling(temperature=0.0, max_tokens=6, stop_token_ids=())
    [[(span, _)]] = sampler.sample([SampleRequest((5, 9, 7), (0,))], sampling)
    return span.token_ids, span.behavior_logprobs


def test_weights_and_configuration_disagree(made: Made, tmp_path: Path) -> None:
    """One layer more than there is, or a tied embedding that is missing, is said as it is of a plain checkpoint."""
    place, plain = quantised(made, tmp_path, "w8a16"), made.run / "student"
    for directory in (place, plain):
        change_config(directory, num_hidden_layers=4)
    for directory in (place, plain):
        with (
            pytest.raises(UnsupportedModelError, match=r"weights and config\.json disagree"),
            opened(str(directory), made.store, quiet()),
        ):
            pass
    tensors = load_file(place / "model.safetensors")
    del tensors["model.embed_tokens.weight"]
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(UnsupportedModelError, match="embed_tokens"), opened(str(place), made.store, quiet()):
        pass


def test_what_is_for_vllm_is_no_file_for_llama_cpp(made: Made, tmp_path: Path) -> None:
    """It is refused with the option that leaves llama.cpp out, rather than as a damaged checkpoint."""
    place = quantised(made, tmp_path, "w4a16")
    with (
        opened(str(place), made.store, quiet()) as subject,
        pytest.raises(CheckpointError, match="--engines vLLM"),
    ):
        engine_file(subject, tmp_path / "made", made.store, quiet(), quantization="Q4_0")
    assert not (tmp_path / "made").exists()


OTHERS: dict[str, dict[str, Any]] = {
    "awq": {"quant_method": "awq"},
    "zero points": {"config_groups": {"group_0": {"weights": {"symmetric": False}}}},
    "floats": {"config_groups": {"group_0": {"weights": {"type": "float"}}}},
    "another rounding of activations": {"config_groups": {"group_0": {"input_activations": {"num_bits": 4}}}},
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_what_is_not_computed_here(made: Made, tmp_path: Path, name: str) -> None:
    """Another quantised format, and another scheme of this one, is refused with the remedy."""
    place = quantised(made, tmp_path, "w8a16")
    told = json.loads((place / "config.json").read_text())["quantization_config"]
    change_config(place, quantization_config=merged(told, OTHERS[name]))
    with (
        pytest.raises(CheckpointError, match=r"not in the compressed-tensors format .*evaluate --url"),
        opened(str(place), made.store, quiet()),
    ):
        pass


def test_what_is_no_checkpoint(made: Made, tmp_path: Path) -> None:
    """A directory without a configuration."""
    with pytest.raises(CheckpointError, match="neither"), opened(str(tmp_path), made.store, quiet()):
        pass


def test_tensors_that_nobody_reads(made: Made, tmp_path: Path) -> None:
    """A tensor that would change the numbers, and one that is missing, are said by name."""
    place = quantised(made, tmp_path, "w4a16")
    tensors = load_file(place / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight_scale"
    for changed in (
        {**tensors, "model.layers.0.mlp.up_proj.weight_g_idx": torch.zeros(2)},
        {key: each for key, each in tensors.items() if key != name},
    ):
        save_file(changed, place / "model.safetensors")
        with pytest.raises(CheckpointError, match="up_proj"), opened(str(place), made.store, quiet()):
            pass


def test_a_copy_is_known_by_its_weights(made: Made, tmp_path: Path) -> None:
    """The same weights elsewhere, beside another configuration, have the hash of the run."""
    place = tmp_path / "copy"
    shutil.copytree(made.run / "student", place)
    change_config(place, architectures=["Other"])
    hashes = {weights_sha256(str(each), made.store, quiet()) for each in (place, made.run)}
    assert len(hashes) == 1


def quantised(made: Made, tmp_path: Path, name: str) -> Path:
    """The run's student in `tmp_path / name`."""
    kind = TYPES[name]
    assert isinstance(kind, IntegerType)
    start = made.run / "student"
    compressed_tensors.write(state_of(load_llama(start)), start, tmp_path / name, kind)
    return tmp_path / name


def change_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def merged(told: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Members of members, changed."""
    nested = {key: merged(told.get(key), each) for key, each in changes.items() if isinstance(each, dict)}
    return {**(told or {}), **changes, **nested}
