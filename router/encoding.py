"""A request as numbers: features and hashed n-grams in one sparse row, the same for fitting and for deciding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.features import STRUCTURE_VERSION, Reading, read, structure
from router.ngrams import NGRAMS_VERSION, NUM_BUCKETS, Buckets, character_buckets, word_buckets
from router.request import RequestView
from router.scan import Scan, scan
from router.texture import TEXTURE_VERSION, texture

ENCODING_VERSION: Final = f"{STRUCTURE_VERSION}/{TEXTURE_VERSION}/{NGRAMS_VERSION}"
"""An artifact fitted on another version is refused."""

FEATURE_WEIGHT: Final = 0.1
"""Of a feature's standard deviation against a block of n-grams, each of which has length 1."""
MAX_DEVIATIONS: Final = 4.0
"""A feature further from its mean than so many standard deviations counts as that far."""

EMBEDDING_WEIGHT: Final = 1.0
"""Of an embedding, which has length 1, against a block of n-grams, which has too."""
MAX_EMBEDDED_CHARS: Final = 1000
"""Of a longer text both ends are embedded, half of this each: tokenising more takes longer than all else together."""

Floats = NDArray[np.float32]

Embedder = Callable[[str], Floats]
"""From a text to its embedding of length 1, always of the same width. It stays outside, as its weights do."""

_NO_EMBEDDING: Final = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What was read off one request."""

    features: Floats
    """Structure, then texture, in the order of `feature_names`."""
    words: Buckets
    characters: Buckets
    embedding: Floats
    """Of no width where it was read without an embedder."""


@dataclass(frozen=True, slots=True)
class Row:
    """A sparse row: the columns that are not zero, and their values."""

    columns: NDArray[np.int64]
    values: Floats


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a fitted model: features first, then a bucket of words each, then a bucket of characters each, and
    at the end the embedding, if there is one.

    A block of n-grams is weighed by (1 + ln count) · idf and brought to length 1 (Salton & Buckley 1988).
    """

    feature_mean: Floats
    feature_scale: Floats
    """One over the standard deviation; 0 for a feature that never varied in the outcomes, which then says nothing."""
    word_idf: Floats
    """0 for a bucket that too few outcomes fell into."""
    character_idf: Floats
    embedding_width: int = 0

    @property
    def num(self) -> int:
        """Columns altogether."""
        return self.embedding_start + self.embedding_width

    @property
    def embedding_start(self) -> int:
        """The first column of the embedding."""
        return len(self.feature_mean) + 2 * NUM_BUCKETS

    def row(self, encoded: Encoded) -> Row:
        """The row of one request."""
        num_features = len(self.feature_mean)
        words, word_values = _weighed(encoded.words, self.word_idf)
        characters, character_values = _weighed(encoded.characters, self.character_idf)
        columns = [_places(num_features), words + num_features, characters + (num_features + NUM_BUCKETS)]
        values = [FEATURE_WEIGHT * self.deviations(encoded.features), word_values, character_values]
        if self.embedding_width:
            columns.append(np.arange(self.embedding_start, self.num))
            values.append(EMBEDDING_WEIGHT * encoded.embedding)
        return Row(np.concatenate(columns), np.concatenate(values))

    def deviations(self, features: Floats) -> Floats:
        """Features in standard deviations from their mean, held to `MAX_DEVIATIONS`."""
        deviations: Floats = (features - self.feature_mean) * self.feature_scale
        return np.minimum(np.maximum(deviations, -MAX_DEVIATIONS), MAX_DEVIATIONS)

    def rarity(self, encoded: Encoded) -> Floats:
        """How far the request's words, and runs of words, are from those of the outcomes: the share that none had, and
        the mean idf, an unknown one's being 0. Nothing is known of no words, so they are far from nothing: 0, 0."""
        indices = encoded.words.indices
        if not len(indices):
            return np.zeros(2, dtype=np.float32)
        idf = self.word_idf[indices]
        return np.array([np.mean(idf == 0), idf.mean()], dtype=np.float32)


def feature_names() -> tuple[str, ...]:
    """The names of `Encoded.features`."""
    nothing = RequestView(endpoint="chat", model="auto", turns=())
    return tuple(_features(nothing, read(()), scan("")))


def encode(view: RequestView, embed: Embedder | None = None) -> Encoded:
    """Read `view` once."""
    reading = read(view.turns)
    scanned = scan(reading.text)
    features = _features(view, reading, scanned)
    return Encoded(
        features=np.fromiter(features.values(), dtype=np.float32, count=len(features)),
        words=word_buckets(scanned),
        characters=character_buckets(scanned),
        embedding=_NO_EMBEDDING if embed is None else embed(_ends(reading.text)),
    )


def _ends(text: str) -> str:
    if len(text) <= MAX_EMBEDDED_CHARS:
        return text
    half = MAX_EMBEDDED_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def _features(view: RequestView, reading: Reading, scanned: Scan) -> dict[str, float]:
    return structure(view, reading) | texture(reading, scanned)


def fit_columns(encoded: Sequence[Encoded], *, least_requests: int = 2) -> Columns:
    """The columns that these requests give: a bucket counts that at least `least_requests` of them fall into."""
    features = np.stack([each.features for each in encoded]).astype(np.float64)
    deviation = features.std(axis=0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9)
    return Columns(
        feature_mean=features.mean(axis=0).astype(np.float32),
        feature_scale=scale.astype(np.float32),
        word_idf=_idf([each.words for each in encoded], least_requests),
        character_idf=_idf([each.characters for each in encoded], least_requests),
        embedding_width=len(encoded[0].embedding),
    )


def _idf(buckets: Sequence[Buckets], least_requests: int) -> Floats:
    """ln((1 + n) / (1 + n_bucket)) + 1."""
    in_requests = np.bincount(np.concatenate([each.indices for each in buckets]), minlength=NUM_BUCKETS)
    idf = np.log((1 + len(buckets)) / (1 + in_requests)) + 1
    return np.where(in_requests >= least_requests, idf, 0.0).astype(np.float32)


def _weighed(buckets: Buckets, idf: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Columns within the block, and values of length 1; none where no bucket is known."""
    values = idf[buckets.indices]
    known = np.flatnonzero(values)
    values = (1 + np.log(buckets.counts[known])) * values[known]
    length = np.sqrt(values @ values)
    return buckets.indices[known].astype(np.int64), values / length if length else values


@cache
def _places(num: int) -> NDArray[np.int64]:
    places = np.arange(num)
    places.flags.writeable = False
    return places
