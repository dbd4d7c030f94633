"""From a run to what an engine loads: published as a difference, made whole again, equal to what was trained."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize
from safetensors.torch import load_file

from serving.bringup.materialize import BASE_SHA256, engine_model, materialize
from serving.bringup.progress import LineReport
from serving.engines.weight_delta import DeltaError
from serving.registry.artifact import Artifact
from serving.registry.collection import collect_garbage
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import Description, Parent
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from tests.train.checkpoints.test_gguf_round_trip import TEMPLATE, write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.agreement import agreement
from train.base import Wishes as BaseWishes
from train.base import bring_in, locate
from train.checkpointing import Checkpoint, save
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.commands import export as export_command
from train.commands import publish as publish_command
from train.export import export
from train.model.llama import Llama
from train.model.lora import merge
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama, state_of
from train.policy import adapt
from train.publish import Wishes, publish
from train.recipe import Recipe, load_recipe
from train.run_directory import RunDirectory, RunError
from train.trained import load_trained

torch.set_num_threads(1)
SHAPE = tiny_shape(
    vocab_size=80, hidden_size=64, intermediate_size=96, head_size=16, num_layers=4, max_positions=1024
)
DOMAIN = "chain_sum"


@dataclass(frozen=True)
class Published:
    """A run of the tiny base and where it was published."""

    run: Path
    store: Store
    artifact: Artifact
    trained: Llama
    """Merged."""


def recipe_of(source: str, method: str) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "tiny",
            "about": "a test",
            "base": {"type": "artifact", "source": source},
            "adapt": {"method": method, "num_layers": 2, "rank": 4, "alpha": 8.0},
            "domains": [{"name": DOMAIN}],
        }
    )


def write_run(
    place: Path, store: Store, source: str, method: str, *, is_evaluated: bool = True, scale: float = 0.03
) -> Path:
    """A run whose weights moved by so much, as its trainer leaves it."""
    recipe = recipe_of(source, method)
    model = load_llama(locate(source, store, quiet()))
    adapt(model, recipe.adapt, recipe.seed)
    generator = torch.Generator().manual_seed(7)
    weights = LlamaPolicy(model).trained()
    for weight in weights.values():
        weight.data += scale * torch.randn(weight.shape, generator=generator)
    score = {"mean": 0.5, "low": 0.25, "high": 0.75}
    found = {"domain": DOMAIN, "num_items": 8, "greedy": score, "sampled": None}
    with RunDirectory(place, recipe, is_resumed=False) as run:
        run.record("evaluation", 0, {"evaluation": {"domains": [{**found, "greedy": {"mean": 0.0}}]}})
        if is_evaluated:
            run.record("evaluation", 3, {"evaluation": {"domains": [found]}})
        tensors = {f"weight.{name}": weight.detach() for name, weight in weights.items()}
        save(run.checkpoints, Checkpoint(3, tensors, {}))
    return place


def quiet() -> LineReport:
    return LineReport(lambda line: None)


@pytest.fixture(scope="module", params=["top_layers", "lora"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    place = tmp_path_factory.mktemp(request.param)
    store = Store(place / "home" / "registry")
    write_checkpoint(place / "tiny", SHAPE)
    base = bring_in(str(place / "tiny"), store, BaseWishes(licence="MIT"), quiet())
    run = write_run(place / "run", store, str(base.reference), request.param)
    wishes = Wishes(name="policy", alias=parse_alias("full@candidate"))
    artifact = publish(run, store, wishes, quiet())
    trained = load_trained(run, store, quiet()).model
    merge(trained)
    return Published(run, store, artifact, trained)


@pytest.fixture
def own(published: Published, tmp_path: Path) -> Published:
    """The same in a registry of its own, to be damaged."""
    shutil.copytree(published.store.root, tmp_path / "registry")
    store = Store(tmp_path / "registry")
    return Published(published.run, store, store.load(published.artifact.reference), published.trained)


def as_llama(gguf: Path, place: Path) -> Llama:
    place.mkdir()
    convert_from_gguf(GgufFile(gguf), place)
    return load_llama(place)


def texts() -> Iterator[tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(3)
    for _ in range(8):
        tokens = torch.randint(SHAPE.vocab_size, (24,), generator=generator).tolist()
        yield tokens[:8], tokens[8:]


def test_the_manifest_says_all(published: Published) -> None:
    """Kind, format, base by name and hash, recipe, data, tokenizer, licence, the last evaluation, and the distance."""
    manifest = published.artifact.manifest
    base = published.store.load(manifest.parents[0].reference)
    is_lora = manifest.recipe["recipe"]["adapt"]["method"] == "lora"  # type: ignore[index, call-overload]
    assert (manifest.kind, manifest.licence) == ("policy", "MIT")
    assert manifest.format == ("lora" if is_lora else "layers-delta-1")
    assert [parent.role for parent in manifest.parents] == ["base"]
    assert (base.manifest.kind, base.manifest.format) == ("base", "gguf")
    assert manifest.recipe[BASE_SHA256] == base.manifest.files[0].sha256
    assert manifest.recipe["num_steps"] == 3
    assert manifest.tokenizer_sha256 == base.manifest.tokenizer_sha256 is not None
    assert manifest.data_sha256 is not None
    assert manifest.metrics[DOMAIN] == {
        "num_items": 8, "greedy": 0.5, "greedy_low": 0.25, "greedy_high": 0.75
    }  # fmt: skip
    assert manifest.metrics["difference"]["size_bytes"] == manifest.size_bytes
    assert manifest.metrics["difference"]["mean_divergence"] < 0.01
    assert published.store.resolve("full@candidate") == published.artifact.reference


def test_the_same_run_is_published_once(own: Published) -> None:
    """Published again, the policy has the version that it had, and no second base is made."""
    before = own.store.references()
    assert publish(own.run, own.store, Wishes(name="policy"), quiet()).reference == own.artifact.reference
    assert own.store.references() == before


def test_whole_it_is_what_was_trained(published: Published, tmp_path: Path) -> None:
    """Every weight is the trained one but for half a step of the difference's quantisation, or half precision's digits
    of an adapter; what did not move is the base's to the bit; and it speaks as the policy does, not as the base."""
    whole = state_of(load_llama(locate(str(published.artifact.reference), published.store, quiet())))
    trained = state_of(published.trained)
    base = load_llama(load_trained(published.run, published.store, quiet()).start)
    num_moved = 0
    for name, before in state_of(base).items():
        moved = trained[name] - before
        if moved.any():
            num_moved += 1
            # Q4_0: steps of an eighth of a block's largest, of which the smaller end may be cut by a whole one
            bound = moved.abs().max() / 8 if moved.ndim > 1 else 1e-6
            assert (whole[name] - trained[name]).abs().max() <= bound * 1.01
        else:
            assert torch.equal(whole[name], before)
    assert num_moved >= 2 * 7
    found, apart = (
        agreement(published.trained, each, list(texts())) for each in (load_whole(published), base)
    )
    assert found is not None
    assert apart is not None
    assert found.mean_divergence < apart.mean_divergence / 20
    assert found.greedy_share > apart.greedy_share


def load_whole(published: Published) -> Llama:
    return load_llama(locate(str(published.artifact.reference), published.store, quiet()))


@pytest.mark.parametrize("quantization", ["Q8_0", "Q4_0"])
def test_the_engines_file_is_the_whole_quantised(
    published: Published, tmp_path: Path, quantization: str
) -> None:
    """Made in numpy alone, each matrix is, to the bit, what the gguf library makes of the whole policy's."""
    made = materialize(
        published.store, published.artifact, quiet(), quantization=quantization, chat_template=None
    )
    state = state_of(as_llama(made.weights, tmp_path / "whole"))
    for name, weights in state_of(load_whole(published)).items():
        kind = GGMLQuantizationType["Q8_0" if "embed" in name else quantization]
        stored = dequantize(quantize(weights.numpy(), kind), kind) if weights.ndim > 1 else weights.numpy()
        assert np.array_equal(state[name].numpy(), stored), name
    assert made.manifest.quantization == quantization
    assert [(each.name, each.role) for each in made.manifest.parents] == [
        ("policy", "materialised_from"),
        (published.artifact.manifest.parents[0].name, "base"),
    ]


def test_as_safetensors_it_is_the_same(published: Published, tmp_path: Path) -> None:
    """`locate` gives a whole checkpoint, once, with the tokenizer."""
    reference = str(published.artifact.reference)
    found = locate(reference, published.store, quiet())
    said: list[str] = []
    assert locate(reference, published.store, LineReport(said.append)) == found
    assert said == []
    assert (found / "tokenizer.json").exists()


def test_an_engine_gets_it_by_alias(own: Published) -> None:
    """The first use makes it and says so; the second finds it; another quantisation is another artifact."""
    said: list[str] = []
    first = engine_model(own.store, "full@candidate", LineReport(said.append), quantization="Q5_1")
    assert first.name == "policy.Q5_1.gguf"
    assert any("making policy:" in line for line in said)
    said.clear()
    assert engine_model(own.store, "full@candidate", LineReport(said.append), quantization="Q5_1") == first
    assert said == []
    assert engine_model(own.store, "full@candidate", quiet(), quantization="Q8_0") != first
    assert GgufFile(first).get("tokenizer.chat_template") == TEMPLATE
    assert list((own.store.root / "staging").iterdir()) == []


def test_what_was_made_stays_with_its_policy(own: Published) -> None:
    """Garbage collection leaves what an alias's target was made into, and takes it once the alias is gone."""
    from datetime import timedelta

    made = engine_model(own.store, "full@candidate", quiet(), quantization="Q8_0")
    collect_garbage(own.store, min_age=timedelta(0))
    assert made.exists()
    own.store.aliases.remove(parse_alias("full@candidate"), by="test")
    collect_garbage(own.store, keep_rollbacks=0, min_age=timedelta(0))
    assert not made.exists()


def test_what_was_damaged_is_made_again(own: Published) -> None:
    """A materialised file that is not what it was is replaced, under the same version."""
    made = engine_model(own.store, "full@candidate", quiet(), quantization="Q8_0")
    before = made.read_bytes()
    made.chmod(0o644)
    made.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    said: list[str] = []
    assert engine_model(own.store, "full@candidate", LineReport(said.append), quantization="Q8_0") == made
    assert made.read_bytes() == before
    assert "is damaged; making it again" in said[0]


def test_a_damaged_difference_is_refused(own: Published) -> None:
    """One flipped bit in the published file, and nothing is made of it."""
    before = own.store.references()
    path = next(own.artifact.directory.glob("*.delta"), own.artifact.directory / "adapter_model.safetensors")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptArtifactError, match="is damaged"):
        engine_model(own.store, "full@candidate", quiet(), quantization="Q8_0")
    assert own.store.references() == before


def test_another_base_is_refused(own: Published, tmp_path: Path) -> None:
    """A difference whose parent is not the GGUF that it was taken from is refused by the file's hash."""
    other = tmp_path / "other.gguf"
    parent = own.store.load(own.artifact.manifest.parents[0].reference)
    data = bytearray(parent.weights.read_bytes())
    data[-1] ^= 1
    other.write_bytes(data)
    about = Description(kind="base", name="other", licence="MIT", format="gguf")
    wrong = own.store.publish(other, about).manifest
    said = own.artifact.manifest.model_dump(include=set(Description.model_fields))
    said["parents"] = (Parent(name=wrong.name, version=wrong.version, role="base"),)
    files = [own.artifact.directory / file.path for file in own.artifact.manifest.files]
    with own.store.stage() as staged:
        for file in files:
            shutil.copyfile(file, staged / file.name)
        changed = own.store.commit(staged, Description.model_validate(said))
    with pytest.raises(DeltaError, match="is a difference to a base of sha256"):
        materialize(own.store, changed, quiet(), quantization="Q8_0", chat_template=None)


def test_a_run_goes_on_from_a_published_policy(own: Published, tmp_path: Path) -> None:
    """Its difference is to the base still, adapters included, and the policy that it started from is named."""
    run = write_run(tmp_path / "next", own.store, "full@candidate", "lora", is_evaluated=False)
    said: list[str] = []
    artifact = publish(run, own.store, Wishes(name="next", quantization="Q8_0"), LineReport(said.append))
    assert artifact.manifest.format == "layers-delta-1"
    assert [(parent.name, parent.role) for parent in artifact.manifest.parents] == [
        (own.artifact.manifest.parents[0].name, "base"),
        ("policy", "started_from"),
    ]
    assert "the run has no evaluation of its weights after 3 steps" in said
    assert set(artifact.manifest.metrics) == {"difference"}
    trained = load_trained(run, own.store, quiet()).model
    merge(trained)
    found = agreement(trained, load_llama(locate(str(artifact.reference), own.store, quiet())), list(texts()))
    assert found is not None
    assert found.mean_divergence < 1e-3


@pytest.mark.parametrize("is_gguf", [False, True])
def test_export(published: Published, tmp_path: Path, is_gguf: bool) -> None:
    """A run's policy is exported whole and to the bit, with its tokenizer; what is in the way is left alone."""
    out = tmp_path / "out"
    written = export(str(published.run), out, published.store, quiet(), is_gguf=is_gguf)
    if is_gguf:
        (tmp_path / "back").mkdir()
        convert_from_gguf(GgufFile(written), tmp_path / "back")
        assert [path.name for path in out.iterdir()] == ["model.gguf"]
    found = load_file((tmp_path / "back" if is_gguf else out) / "model.safetensors")
    expected = state_of(published.trained)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    with pytest.raises(RunError, match="holds something already"):
        export(str(published.run), out, published.store, quiet())
    assert sorted(path.name for path in tmp_path.iterdir()) == (["back", "out"] if is_gguf else ["out"])


def test_an_artifact_is_exported_too(published: Published, tmp_path: Path) -> None:
    """A published policy is exported as `locate` has it."""
    reference = str(published.artifact.reference)
    out = export(reference, tmp_path / "out", published.store, quiet())
    whole = locate(reference, published.store, quiet())
    names = {path.name for path in whole.iterdir()} - {"manifest.json"}
    assert {path.name for path in out.iterdir()} == names
    assert all((out / name).read_bytes() == (whole / name).read_bytes() for name in names)


def test_what_cannot_be_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No run, no checkpoint, and random weights over characters are each one line that says what to do."""
    home = ["--home", str(tmp_path / "home")]
    assert publish_command.main([str(tmp_path), "--name", "p", *home]) == 1
    assert "holds no run" in capsys.readouterr().err
    with RunDirectory(tmp_path / "r0", load_recipe("r0"), is_resumed=False):
        pass
    assert publish_command.main([str(tmp_path / "r0"), "--name", "p", *home]) == 1
    assert "random weights over characters" in capsys.readouterr().err
    write_checkpoint(tmp_path / "tiny", SHAPE)
    with RunDirectory(tmp_path / "new", recipe_of(str(tmp_path / "tiny"), "lora"), is_resumed=False):
        pass
    assert export_command.main([str(tmp_path / "new"), "--out", str(tmp_path / "o"), *home]) == 1
    assert "has no checkpoint yet" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_the_commands(published: Published, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tierwise train publish` and `tierwise train export` print what they made, alone, on stdout."""
    home = ["--home", str(published.store.root.parent)]
    assert publish_command.main([str(published.run), "--name", "policy", *home]) == 0
    assert capsys.readouterr().out == f"{published.artifact.reference}\n"
    assert export_command.main([str(published.run), "--out", str(tmp_path / "o"), *home]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'o'}\n"


@pytest.mark.parametrize("verb", ["publish", "export"])
def test_help_waits_for_no_torch(verb: str) -> None:
    """`--help` is there before anything large is imported."""
    script = (
        f"import sys\nfrom train.commands.{verb} import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'gguf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
