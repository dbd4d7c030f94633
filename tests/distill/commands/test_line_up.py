"""`tierwise distill line-up` of two real GGUF files of a registry, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from distill.commands import distill
from distill.line_up.entrants import Entrant, bytes_read, made_ready
from serving.engines.requantize import open_model, requantize
from serving.registry.manifest import Description
from tests.distill.student_run import Made
from tests.train.test_publish import quiet
from train.checkpoints.gguf_file import GgufFile

torch.set_num_threads(1)
ROUTER = Path(__file__).parents[3] / "router/data/router.npz"


def published_q4(made: Made) -> str:
    """The base in fewer bits, as an artifact."""
    file = made.home / "tiny-Q4_0.gguf"
    requantize(open_model(made.base.weights), file, quantization="Q4_0")
    description = Description(kind="base", name="tiny-q4", licence="MIT", format="gguf")
    return str(made.store.publish(file, description).reference)


def argv(made: Made, *words: str) -> list[str]:
    models = [f"full={made.base.reference}", f"q4={published_q4(made)}", f"student={made.run}"]
    few = ["--domains", "chain_sum,gcd", "--items", "2", "--streams", "1,2", "--tokens", "8", "--rounds", "2"]
    options = [*few, "--threads", "1", "--engines", "llama.cpp", "--home", str(made.home)]
    return ["line-up", *models, *options, "--resume", str(made.home / "cells"), *words]


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_a_table_and_what_is_kept_of_it(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Every model has all its figures; asked again nothing is measured, and the figures are the same; with a router
    there are figures on what it leaves. Nothing is published, and a dry run knows what is there."""
    assert distill.main(argv(made, "--router", "none", "--dry-run")) == 0
    said = capsys.readouterr().out
    assert "answers in llama.cpp" in said
    assert " 12 " in said
    assert distill.main(argv(made, "--router", "none", "--json")) == 0
    found = json.loads(capsys.readouterr().out)["standings"]
    before = made.store.references()
    assert [each["label"] for each in found] == ["full", "q4", "student"]
    full, q4, student = found
    assert q4["size_bytes"] < full["size_bytes"]
    assert student["read_bytes"] < full["read_bytes"]
    for each in found:
        assert set(each["speeds"]["llama.cpp"]) == {"1", "2"}
        assert all(speed["tokens_per_s"] > 0 for speed in each["speeds"]["llama.cpp"].values())
        assert set(each["differences"]) == {"chain_sum", "gcd"}
        assert each["num_errors"] == 0
        assert each["routed"] == []
    shutil.rmtree(made.home / "cells" / "logs")
    assert distill.main(argv(made, "--router", str(ROUTER), "--shares", "0.5", "--json")) == 0
    again = json.loads(capsys.readouterr().out)["standings"]
    assert list((made.home / "cells" / "logs").iterdir()) == []  # no engine came up
    assert [each.pop("routed") for each in again[1:]] != [[], []]
    assert [{**each, "routed": []} for each in again] == found
    assert distill.main(argv(made, "--router", "none", "--markdown")) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in table[4:]] == ["full", "q4", "student"]
    assert len({line.count("|") for line in table[2:]}) == 1
    assert made.store.references() == before


def test_models_are_made_ready(made: Made) -> None:
    """Each as an engine loads it: a GGUF as it is, a run quantised; a token reads all of a tied model."""
    entrants = [Entrant.parse(f"full={made.base.reference}"), Entrant.parse(f"student={made.run}")]
    quantizations = {"full": "Q8_0", "student": "Q4_0"}
    with made_ready(entrants, made.store, quiet(), quantizations=quantizations) as (full, student):
        assert full.file == made.base.weights
        assert student.file.exists()
        assert student.quantization == "Q4_0"
        assert (full.start / "tokenizer.json").exists()
        assert 0 < student.read_bytes < student.size_bytes
        tensors = GgufFile(full.file).tensors
        assert full.read_bytes == sum(int(each.n_bytes) for each in tensors.values())
        untied = GgufFile(full.file)
        untied.tensors["output.weight"] = tensors["token_embd.weight"]
        assert bytes_read(untied) == full.read_bytes
    assert not student.file.exists()


def test_wrong_use(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A model without a label, one alone, two of one label, one item, no domains, shares that are none."""
    base, home = str(made.base.reference), ["--home", str(made.home)]
    for words in (["full"], [f"full={base}", "--shares", "2"]):
        with pytest.raises(SystemExit):
            distill.main(["line-up", *words, *home])
    two = [f"full={base}", f"other={base}"]
    assert distill.main(["line-up", f"full={base}", "--domains", "gcd", *home]) == 1
    assert distill.main(["line-up", f"full={base}", f"full={base}", "--domains", "gcd", *home]) == 1
    assert distill.main(["line-up", *two, "--domains", "gcd", "--items", "1", *home]) == 1
    assert distill.main(["line-up", *two, *home]) == 1
    said = capsys.readouterr().err
    reasons = (
        "write it like fast=fast@stable",
        "are no shares",
        "a label of its own",
        "one item",
        "name domains",
    )
    assert all(reason in said for reason in reasons)
