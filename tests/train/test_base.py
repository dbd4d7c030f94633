"""Bringing a base in: every kind of source ends as the same kind of artifact, and what is missing is said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from serving.bringup.progress import Unit
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.base import Wishes, bring_in, download_from_hub, locate
from train.checkpoints.directory import CheckpointError
from train.checkpoints.to_gguf import convert_to_gguf
from train.commands.base import main
from train.model.shape import UnsupportedModelError
from train.model.weights import load_llama

torch.set_num_threads(1)
FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
MIT = Wishes(licence="MIT")


class Said:
    """A report that keeps what it hears."""

    is_terminal = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def track(self, label: str, total: int, unit: Unit) -> Iterator[Callable[[int], None]]:
        yield lambda done: None


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "My Model", tiny_shape(vocab_size=80))
    return tmp_path / "My Model"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "registry")


def test_a_directory_and_its_gguf_give_the_same_model(checkpoint: Path, store: Store, tmp_path: Path) -> None:
    """Both become artifacts of kind base that load to the same weights, under one tokenizer's hash; twice is once."""
    convert_to_gguf(checkpoint, tmp_path / "m.gguf")
    first = bring_in(str(checkpoint), store, MIT, Said())
    second = bring_in(str(tmp_path / "m.gguf"), store, Wishes(name="m", licence="MIT"), Said())
    assert (first.manifest.kind, first.manifest.name, first.manifest.format) == (
        "base",
        "my-model",
        "safetensors",
    )
    assert {file.path for file in first.manifest.files} == FILES
    assert {file.path for file in second.manifest.files} == FILES | {"chat_template.jinja"}
    ours, theirs = (load_llama(each.directory).state_dict() for each in (first, second))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert first.manifest.tokenizer_sha256 == second.manifest.tokenizer_sha256
    assert bring_in(str(checkpoint), store, MIT, Said()).reference == first.reference


def test_an_artifact_is_converted_once_and_named_as_parent(
    checkpoint: Path, store: Store, tmp_path: Path
) -> None:
    """A GGUF of the registry is the parent of what is made of it; `locate` makes it once and finds it afterwards."""
    from serving.registry.manifest import Description

    convert_to_gguf(checkpoint, tmp_path / "m.gguf")
    about = Description(kind="base", name="m", licence="MIT", format="gguf")
    parent = store.publish(tmp_path / "m.gguf", about)
    store.aliases.point(parse_alias("m@stable"), parent.reference, by="test")
    found = locate("m@stable", store, Said())
    again = Said()
    assert locate(str(parent.reference), store, again) == found
    assert again.lines == []
    (made,) = [store.load(each) for each in store.references() if each != parent.reference]
    assert [(each.reference, each.role) for each in made.manifest.parents] == [
        (parent.reference, "converted_from")
    ]
    assert locate(str(made.reference), store, Said()) == found
    assert locate(str(checkpoint), store, Said()) == checkpoint


def test_the_hub_is_asked_for_what_is_no_path(checkpoint: Path, store: Store) -> None:
    """owner/name is downloaded, published with its id, and an alias follows where asked."""
    alias = parse_alias("tiny@stable")
    asked: list[str] = []

    def fetch(hub_id: str, into: Path) -> Path:
        asked.append(hub_id)
        return checkpoint

    made = bring_in("Some/Tiny-Model", store, Wishes(licence="MIT", alias=alias), Said(), fetch_hub=fetch)
    assert asked == ["Some/Tiny-Model"]
    assert (made.manifest.name, made.manifest.recipe["hub_id"]) == ("some-tiny-model", "Some/Tiny-Model")
    assert store.resolve(alias) == made.reference


def test_offline_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the hub the error names the model and what else to do."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"hub for nobody/nothing .*; go online, or name a directory"):
        download_from_hub("nobody/nothing", tmp_path)


def test_what_cannot_be_brought_in(checkpoint: Path, store: Store) -> None:
    """No licence, no such path, no tokenizer, another family: each is said, and nothing is published."""
    with pytest.raises(CheckpointError, match="--licence"):
        bring_in(str(checkpoint), store, Wishes(), Said())
    with pytest.raises(CheckpointError, match="no file or directory"):
        bring_in("./absent", store, MIT, Said())
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        bring_in(str(checkpoint), store, MIT, Said())
    (checkpoint / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UnsupportedModelError, match="gpt2"):
        bring_in(str(checkpoint), store, MIT, Said())
    assert store.references() == []


def test_the_command(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the reference alone on stdout, and errors on one line."""
    home = ["--home", str(tmp_path / "home")]
    assert main([str(checkpoint), "--licence", "MIT", "--name", "tiny", *home]) == 0
    assert capsys.readouterr().out.startswith("tiny:")
    assert main(["./absent", *home]) == 1
    assert capsys.readouterr().err.startswith("tierwise: no file or directory absent")


def test_help_does_not_wait_for_torch() -> None:
    """`--help` is there before anything large is imported."""
    script = (
        "import sys\nfrom train.commands.base import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'gguf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
