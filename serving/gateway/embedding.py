"""The embedding of texts that a difficulty model may read beside its own features: wordllama's, where installed.

Its weights lie in its wheel, so nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from router.artifact_header import ArtifactError
from router.encoding import Embedder, Floats

WORDLLAMA: Final = "wordllama"
REMEDY: Final = "install it with `pip install 'tierwise[router-fit]'`, or fit with `--embedding none`"


class EmbeddingError(ArtifactError):
    """An embedding is not installed, or is another one; the message names the remedy."""


def load_embedding(package: str) -> tuple[str, Embedder]:
    """The embedding of an installed package, and the name by which an artifact knows it: package, width and weights.

    Raises:
        EmbeddingError: it is not installed.
    """
    try:
        module: Any = importlib.import_module(package)
    except ImportError as error:
        raise EmbeddingError(f"the embedding {package!r} is not installed ({error}); {REMEDY}") from None
    model = module.WordLlama.load(cache_dir=Path(module.__file__).parent, disable_download=True)
    weights = np.ascontiguousarray(model.embedding, dtype=np.float32)
    digest = hashlib.sha256(weights.tobytes()).hexdigest()
    return f"{package}-{weights.shape[1]}-{digest[:12]}", _of_length_one(model.embed)


def find_embedder(name: str) -> Embedder:
    """The embedding that an artifact was fitted with.

    Raises:
        EmbeddingError: it is not installed, or the installed one has other weights.
    """
    package = name.partition("-")[0]
    if package != WORDLLAMA:
        raise EmbeddingError(
            f"the artifact needs the embedding {name!r}, which this version does not know; fit it again"
        )
    installed, embedder = load_embedding(package)
    if installed != name:
        raise EmbeddingError(
            f"the artifact was fitted with {name}, and {installed} is installed; fit it again"
        )
    return embedder


def _of_length_one(embed: Callable[[list[str]], Any]) -> Embedder:
    def embedder(text: str) -> Floats:
        vector = np.asarray(embed([text])[0], dtype=np.float32)
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length) if length else vector

    return embedder
