"""The optional embedding: fitted with, recorded, asked for when the artifact is served, refused without."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from router.artifact import from_bytes, to_bytes
from router.artifact_fit import Origin, fit_artifact
from router.artifact_header import ArtifactError
from router.boosting import BoostConfig
from router.encoding import MAX_EMBEDDED_CHARS, encode
from router.fit_config import FitConfig
from router.outcome_table import OutcomeTable, view_of
from router.prepared import prepare
from serving.gateway.embedding import EmbeddingError, find_embedder, load_embedding

WIDTH = 4


def colour(text: str) -> np.ndarray:
    """An embedding that knows one thing: whether a text is of red or of blue."""
    vector = np.array([text.count("red"), text.count("blue"), 0.1, 0.0], dtype=np.float32)
    return vector / np.linalg.norm(vector)


def coloured(num: int) -> OutcomeTable:
    """Prompts that share no word but the colour, which alone decides."""
    generator = np.random.default_rng(0)
    is_red = generator.random(num) < 0.5
    letters = np.array(list("abcdefghijklmnop"))
    prompts = tuple(
        " ".join("".join(generator.choice(letters, 7)) + (" red" if red else " blue") for _ in range(3))
        for red in is_red
    )
    p = np.where(is_red, 0.2, 0.8)
    return OutcomeTable(
        prompts=prompts,
        domains=("d",) * num,
        arms=("weak", "strong"),
        successes=(generator.random((num, 2)) < np.stack((p, np.full(num, 0.7)), axis=1)).astype(float),
        num_output_tokens=np.full((num, 2), np.nan),
        costs=np.full((num, 2), np.nan),
    )


@pytest.fixture(scope="module")
def file() -> bytes:
    config = FitConfig(num_folds=3, max_steps=15, boosting=BoostConfig(num_trees=5))
    origin = Origin(data_sha256="0" * 64, embedding="colour-4")
    return to_bytes(*fit_artifact(prepare(coloured(240), colour), config, origin))


def test_what_was_fitted_with_it_is_read_with_it(file: bytes) -> None:
    """The artifact asks for the embedding by its name, and decides and explains by it."""
    asked: list[str] = []
    model, header = from_bytes(file, lambda name: asked.append(name) or colour)
    assert asked == ["colour-4"] == [header.embedding]
    assert header.recipe["embedding"] == "colour-4"
    red, blue = (model.probabilities(encode(view_of(text), colour))[0] for text in ("red qq", "blue qq"))
    assert red < 0.5 < blue
    assert model.contributions(view_of("red qq"))["embedding"] > 0


def test_it_is_not_read_without(file: bytes) -> None:
    """Where nobody can bring the embedding the artifact is refused."""
    with pytest.raises(ArtifactError, match="needs the embedding 'colour-4'"):
        from_bytes(file)


def test_long_texts_are_embedded_by_their_ends() -> None:
    """What is embedded is bounded, and both ends are in it."""
    seen: list[str] = []

    def remember(text: str) -> np.ndarray:
        seen.append(text)
        return np.ones(1, dtype=np.float32)

    encode(view_of("begin " + "x" * 5000 + " end"), remember)
    assert len(seen[0]) <= MAX_EMBEDDED_CHARS + 1
    assert seen[0].startswith("begin")
    assert seen[0].endswith("end")


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package both fitting and serving are refused with the remedy."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    for refused in (lambda: load_embedding("wordllama"), lambda: find_embedder("wordllama-256-abc")):
        with pytest.raises(EmbeddingError, match=r"pip install 'tierwise\[router-fit\]'"):
            refused()
    with pytest.raises(EmbeddingError, match="does not know"):
        find_embedder("colour-4")


def test_other_weights_are_another_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name holds the weights' hash, vectors come out with length 1, and other weights are refused."""
    weights = np.arange(8, dtype=np.float32).reshape(2, 4)
    model = SimpleNamespace(embedding=weights, embed=lambda texts: [weights[1] for _ in texts])
    package = ModuleType("wordllama")
    package.__file__ = str(Path("somewhere") / "__init__.py")
    package.WordLlama = SimpleNamespace(load=lambda **_: model)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wordllama", package)
    name, embed = load_embedding("wordllama")
    assert name.startswith("wordllama-4-")
    assert float(np.linalg.norm(embed("text"))) == pytest.approx(1)
    assert np.allclose(find_embedder(name)("text"), embed("text"))
    with pytest.raises(EmbeddingError, match="is installed; fit it again"):
        find_embedder("wordllama-4-000000000000")
