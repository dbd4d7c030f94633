"""A student goes through the gate into the registry as serving will make it, or nothing changes at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from distill.commands import publish as publish_command
from distill.dossier import Dossier, read_dossier
from distill.load_test import Trial
from distill.packing import Form, pack
from distill.paired import Estimate, Kept
from serving.bringup.materialize import BASE_ROLE, BASE_SHA256, engine_model
from serving.registry.store import Store
from tests.distill.student_run import DOMAIN, KEPT, Made, good_dossier
from tests.engines.real_engine import running
from tests.train.test_publish import quiet
from train.base import locate
from train.model.weights import load_llama, state_of

torch.set_num_threads(1)


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def evaluated(made: Made, form: Form = Form()) -> Dossier:  # noqa: B008  frozen
    return good_dossier(sha256_of(pack(made.run, form, made.store, quiet()).served))


def publish(made: Made, dossier: Dossier, *words: str) -> int:
    """By the command, with an evaluation that was written before."""
    path = made.home / "evaluation.json"
    path.write_text(json.dumps(asdict(dossier)))
    argv = [str(made.run), "--against", str(made.base.reference), "--name", "small", "--home", str(made.home)]
    return publish_command.main([*argv, "--evaluation", str(path), *words])


def everything(store: Store) -> list[str]:
    """All files of a registry but its lock, and what is in them."""
    files = [path for path in sorted(store.root.rglob("*")) if path.is_file() and path.name != "lock"]
    return [f"{path} {sha256_of(path)}" for path in files]


def test_what_passes_is_published(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Kind, format, parents, recipe without this machine's paths, domains' metrics; the alias leads to it, and the
    command that makes the router know it is said."""
    assert publish(made, evaluated(made), "--alias", "fast@candidate") == 0
    said = capsys.readouterr()
    artifact = made.store.load("fast@candidate")
    manifest = artifact.manifest
    assert said.out.strip() == str(artifact.reference)
    assert (manifest.kind, manifest.format, manifest.licence) == ("student", "student-delta-1", "MIT")
    assert [(parent.role, parent.reference) for parent in manifest.parents] == [
        (BASE_ROLE, made.base.reference)
    ]
    assert manifest.recipe[BASE_SHA256] == made.base.manifest.files[0].sha256
    assert manifest.recipe["kept_layers"] == list(KEPT)
    assert manifest.recipe["recipe"]["base"]["source"] == str(made.base.reference)  # type: ignore[index, call-overload]
    assert str(made.home.parent) not in manifest.model_dump_json()
    assert manifest.data_sha256 is not None
    assert manifest.metrics[DOMAIN]["teacher_greedy"] == 0.6
    assert manifest.metrics["all"]["retention_low"] == 0.91
    assert manifest.metrics["llama.cpp"]["full_tokens_per_s_16"] == 30
    assert "gate: passes" in said.err
    told = "tierwise route refit --set tiers.fast.model=fast@candidate --publish router@candidate"
    assert told in said.err


@pytest.mark.parametrize("words", [("--served", "Q8_0"), ("--served", "Q4_0", "--rank", "8")])
def test_serving_makes_what_was_judged(made: Made, words: tuple[str, ...]) -> None:
    """The tier's model, made at first use from the registry alone, is to the byte the file that the gate was shown."""
    form = Form(served=words[1], rank=8 if "--rank" in words else None)
    dossier = evaluated(made, form)
    assert publish(made, dossier, *words, "--alias", "fast@stable") == 0
    path = engine_model(made.store, "fast@stable", quiet(), quantization=form.served)
    assert sha256_of(path) == dossier.sha256


def test_whole_it_is_the_student(made: Made) -> None:
    """As vLLM loads it: so many layers, weights that moved near the student's, the others to the bit."""
    dossier = evaluated(made, Form(difference="Q8_0"))
    assert publish(made, dossier, "--alias", "fast@stable", "--difference", "Q8_0") == 0
    whole = state_of(load_llama(locate("fast@stable", made.store, quiet())))
    for name, weight in state_of(made.student).items():
        is_moved = name.startswith(f"model.layers.{len(KEPT) - 1}.")
        assert (whole[name] - weight).abs().max() <= (0.01 if is_moved else 0)


def test_the_same_evaluation_gives_the_same_version(made: Made) -> None:
    """Published again it is the artifact that it was."""
    dossier = evaluated(made)
    assert publish(made, dossier) == 0
    before = everything(made.store)
    assert publish(made, dossier) == 0
    assert everything(made.store) == before


REFUSED = {
    "retention": Kept(Estimate(0.9, 0.8, 1.0), {DOMAIN: Estimate(-0.06, -0.12, 0.0)}),
    "worst domain": Kept(Estimate(0.95, 0.91, 1.0), {DOMAIN: Estimate(-0.2, -0.3, -0.15)}),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_refusal_changes_nothing(made: Made, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, the table and the reason on stderr; not a file of the registry is another, and no alias moves."""
    dossier = evaluated(made)
    assert dossier.comparison is not None
    bad = replace(dossier, comparison=replace(dossier.comparison, kept=REFUSED[name]))
    before = everything(made.store)
    assert publish(made, bad, "--alias", "fast@stable") == 1
    assert everything(made.store) == before
    said = capsys.readouterr()
    assert "gate: refuses" in said.err
    assert f"tierwise: refused: {name} is" in said.err
    assert said.out == ""


def test_the_limits_are_the_callers(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Size, cost and engines are refused by options, and let through by others."""
    dossier = evaluated(made)
    untried = replace(dossier, trials=dossier.trials[:1])
    assert publish(made, dossier, "--max-bytes", "1000") == 1
    assert "size is" in capsys.readouterr().err
    assert publish(made, dossier, "--max-cost-share", "0.3") == 1
    assert "cost of a token at 16 streams is 0.33" in capsys.readouterr().err
    assert publish(made, dossier, "--licences", "Apache-2.0") == 1
    assert "licence is MIT" in capsys.readouterr().err
    assert publish(made, untried) == 1
    assert "vLLM is not tried" in capsys.readouterr().err
    assert publish(made, untried, "--engines", "llama.cpp") == 0


def test_an_evaluation_of_other_weights_is_refused(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A student that was cut otherwise is served as another file, of which this evaluation says nothing."""
    dossier = evaluated(made)
    assert publish(made, dossier, "--rank", "2") == 1
    assert "is of other weights" in capsys.readouterr().err
    (made.home / "broken.json").write_text("{}")
    argv = [str(made.run), "--against", str(made.base.reference), "--name", "small", "--home", str(made.home)]
    assert publish_command.main([*argv, "--evaluation", str(made.home / "broken.json")]) == 1
    assert "is no evaluation" in capsys.readouterr().err


def test_a_run_that_is_not_done(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a student nor anything that was said to be something."""
    (made.run / "student.json").unlink()
    assert publish(made, good_dossier("0" * 64)) == 1
    assert "is no student's run" in capsys.readouterr().err


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_measured_for_real_it_is_refused(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Random weights solve nothing, so the gate refuses; but llama.cpp comes up on the student and answers."""
    argv = [str(made.run), "--against", str(made.base.reference), "--name", "small", "--home", str(made.home)]
    few = ["--items", "2", "--streams", "1,2", "--cost-streams", "2", "--tokens", "8", "--rounds", "1"]
    before = everything(made.store)
    assert publish_command.main([*argv, *few, "--engines", "llama.cpp", "--threads", "1"]) == 1
    said = capsys.readouterr().err
    assert "retention is the teacher solves nothing" in said
    assert "llama.cpp" in said
    assert "refused" in said
    assert "llama.cpp is" not in said
    assert [each for each in everything(made.store) if each not in before] == []


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_llama_cpp_serves_what_was_published(made: Made) -> None:
    """By its alias, made at first use."""
    assert publish(made, evaluated(made), "--alias", "fast@stable") == 0
    path = engine_model(made.store, "fast@stable", quiet(), quantization="Q4_0")
    with running(path) as client:
        body = {"prompt": [1, 5, 9], "max_tokens": 4, "temperature": 0}
        answer = client.post("/v1/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] >= 1


def test_a_trial_is_written_and_read(made: Made) -> None:
    """What `evaluate --out` writes is what the gate is shown."""
    dossier = replace(evaluated(made), trials=(Trial("vLLM", "no kernel", {}, {}),))
    path = made.home / "evaluation.json"
    path.write_text(json.dumps(asdict(dossier)))
    assert read_dossier(path, dossier.sha256) == dossier
