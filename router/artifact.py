"""The router artifact: a fitted model in one file of numpy arrays and a JSON header, without pickle. Bytes in and out.

The file is an `.npz`. Weights and idf are kept as 16-bit floats for the columns that have any; `to_bytes` of what
`from_bytes` gives is the same model again.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from router.artifact_header import ArtifactError, ArtifactHeader, header_from_json, header_to_json
from router.boosting import Trees
from router.calibration import Isotonic, Line
from router.encoding import Columns, Embedder, feature_names
from router.fitted import ArmModel, FittedModel, Scorer, TokenModel
from router.ngrams import NUM_BUCKETS

MAX_BYTES: Final = 256 * 2**20
"""Unpacked; a larger file is no router artifact."""

Arrays = Mapping[str, NDArray[Any]]


def to_bytes(model: FittedModel, header: ArtifactHeader) -> bytes:
    """The artifact's file."""
    columns = model.scorer.columns
    used = np.flatnonzero(np.any(model.scorer.weights != 0, axis=1))
    arrays: dict[str, NDArray[Any]] = {
        "header": np.frombuffer(header_to_json(header), dtype=np.uint8),
        "feature_mean": columns.feature_mean,
        "feature_scale": columns.feature_scale,
        **_sparse("word_idf", columns.word_idf),
        **_sparse("character_idf", columns.character_idf),
        "embedding_width": np.array(columns.embedding_width),
        "used_columns": used.astype(np.uint32),
        "weights": model.scorer.weights[used].astype(np.float16),
        "intercepts": model.scorer.intercepts,
        "most_unknown": np.array(model.most_unknown),
    }
    for place, arm in enumerate(model.by_arm):
        arrays |= _of_arm(f"arm{place}", arm)
    buffer = io.BytesIO()
    # numpy's stub cannot tell the arrays' names from its own options.
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def without_embedding(name: str) -> Embedder:
    """Knows no embedding.

    Raises:
        ArtifactError: always.
    """
    raise ArtifactError(f"the artifact needs the embedding {name!r}, which is not at hand here")


def from_bytes(
    data: bytes, find_embedder: Callable[[str], Embedder] = without_embedding
) -> tuple[FittedModel, ArtifactHeader]:
    """The model in an artifact's file, and its header.

    Args:
        data: the file.
        find_embedder: called with the name of the embedding, if the artifact needs one; may raise.

    Raises:
        ArtifactError: no such file, one of another schema, or one for another encoding.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise ArtifactError(f"a router artifact unpacks to at most {MAX_BYTES} bytes; this is none")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = header_from_json(arrays["header"].tobytes())
        embed = None if header.embedding is None else find_embedder(header.embedding)
        return _model(arrays, header, embed), header
    except ArtifactError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, EOFError, OSError) as error:
        raise ArtifactError(f"not a router artifact, or a damaged one: {error}; fit it again") from None


def _model(arrays: Arrays, header: ArtifactHeader, embed: Embedder | None) -> FittedModel:
    num_features, num_arms = len(feature_names()), len(header.arms)
    columns = Columns(
        feature_mean=_floats(arrays, "feature_mean", (num_features,)),
        feature_scale=_floats(arrays, "feature_scale", (num_features,)),
        word_idf=_dense("word_idf", arrays),
        character_idf=_dense("character_idf", arrays),
        embedding_width=int(arrays["embedding_width"]),
    )
    used = arrays["used_columns"].astype(np.int64)
    weights = np.zeros((columns.num, num_arms), dtype=np.float32)
    weights[used] = _floats(arrays, "weights", (len(used), num_arms))
    return FittedModel(
        version=header.version,
        arms=header.arms,
        scorer=Scorer(columns, weights, _floats(arrays, "intercepts", (num_arms,))),
        by_arm=tuple(_arm(arrays, f"arm{place}") for place in range(num_arms)),
        most_unknown=float(arrays["most_unknown"]),
        embed=embed,
    )


def _of_arm(name: str, arm: ArmModel) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        f"{name}_line": np.array([arm.line.slope, arm.line.intercept]),
        f"{name}_tree_features": arm.trees.features.astype(np.int32),
        f"{name}_tree_thresholds": arm.trees.thresholds,
        f"{name}_tree_leaves": arm.trees.leaves,
        f"{name}_calibration": np.stack((arm.calibration.scores, arm.calibration.probabilities)),
    }
    if arm.tokens is not None:
        arrays[f"{name}_token_weights"] = arm.tokens.weights
        arrays[f"{name}_tokens"] = np.array([arm.tokens.intercept, arm.tokens.smearing, arm.tokens.most])
    return arrays


def _arm(arrays: Arrays, name: str) -> ArmModel:
    slope, intercept = _floats(arrays, f"{name}_line", (2,), np.float64).tolist()
    features = arrays[f"{name}_tree_features"].astype(np.int64)
    num_trees, depth = features.shape
    calibration = _floats(
        arrays, f"{name}_calibration", (2, arrays[f"{name}_calibration"].shape[1]), np.float64
    )
    tokens = None
    if f"{name}_tokens" in arrays:
        weights = _floats(arrays, f"{name}_token_weights", (len(feature_names()),))
        tokens = TokenModel(weights, *_floats(arrays, f"{name}_tokens", (3,), np.float64).tolist())
    return ArmModel(
        line=Line(slope, intercept),
        trees=Trees(
            features,
            # A threshold may be infinite: the answer is then always no.
            arrays[f"{name}_tree_thresholds"].astype(np.float32).reshape(num_trees, depth),
            _floats(arrays, f"{name}_tree_leaves", (num_trees, 2**depth)),
        ),
        calibration=Isotonic(calibration[0], calibration[1]),
        tokens=tokens,
    )


def _sparse(name: str, dense: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    places = np.flatnonzero(dense)
    return {f"{name}_places": places.astype(np.uint32), name: dense[places].astype(np.float16)}


def _dense(name: str, arrays: Arrays) -> NDArray[np.float32]:
    places = arrays[f"{name}_places"].astype(np.int64)
    dense = np.zeros(NUM_BUCKETS, dtype=np.float32)
    dense[places] = _floats(arrays, name, (len(places),))
    return dense


def _floats(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> NDArray[Any]:
    """The array, which must have this shape and only finite numbers."""
    array: NDArray[Any] = arrays[name].astype(dtype)
    if array.shape != shape:
        raise ArtifactError(f"{name} has shape {array.shape} and not {shape}; fit it again")
    if not np.all(np.isfinite(array)):
        raise ArtifactError(f"{name} holds numbers that are not finite; fit it again")
    return array
