"""Near-duplicates among prompts: groups that must not be split between what a model is fitted on and tested on.

Two prompts are near-duplicates when at least `LEAST_SIMILARITY` of their runs of words are the same (Jaccard). Pairs
are found by MinHash with banding (Broder 1997; Leskovec et al., Mining of Massive Datasets, chapter 3) and checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.ngrams import Buckets

LEAST_SIMILARITY: Final = 0.5
NUM_BANDS: Final = 24
ROWS_PER_BAND: Final = 3
"""24 bands of 3 find a pair that is 0.5 alike with probability 0.96, and one that is 0.7 alike with 0.99996."""
_PRIME: Final = np.uint64(2**61 - 1)


def duplicate_groups(prompts: Sequence[Buckets]) -> NDArray[np.int64]:
    """A group number for each prompt's `word_buckets`; near-duplicates, and theirs, have the same one."""
    groups = _Groups(len(prompts))
    for one, other in _suspects(prompts):
        if (
            not groups.are_joined(one, other)
            and _similarity(prompts[one], prompts[other]) >= LEAST_SIMILARITY
        ):
            groups.join(one, other)
    return np.array([groups.root(place) for place in range(len(prompts))], dtype=np.int64)


def _suspects(prompts: Sequence[Buckets]) -> Iterator[tuple[int, int]]:
    """Pairs that share a band, each prompt with the first one of that band."""
    generator = np.random.Generator(np.random.PCG64(0))  # fixed: the groups are part of what a fit is
    factors = generator.integers(1, 2**31, NUM_BANDS * ROWS_PER_BAND, dtype=np.uint64)
    offsets = generator.integers(0, 2**31, NUM_BANDS * ROWS_PER_BAND, dtype=np.uint64)
    bands: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        if not len(prompt.indices):
            continue
        hashes = (prompt.indices.astype(np.uint64)[:, None] * factors + offsets) % _PRIME
        smallest = hashes.min(axis=0).reshape(NUM_BANDS, ROWS_PER_BAND)
        for band, values in enumerate(smallest):
            bands[band.to_bytes(2, "big") + values.tobytes()].append(place)
    for places in bands.values():
        for place in places[1:]:
            yield places[0], place


def _similarity(one: Buckets, other: Buckets) -> float:
    num_shared = len(np.intersect1d(one.indices, other.indices, assume_unique=True))
    return num_shared / (len(one.indices) + len(other.indices) - num_shared)


class _Groups:
    """Disjoint sets with path halving."""

    def __init__(self, num: int) -> None:
        self._parents = list(range(num))

    def root(self, place: int) -> int:
        while self._parents[place] != place:
            self._parents[place] = self._parents[self._parents[place]]
            place = self._parents[place]
        return place

    def are_joined(self, one: int, other: int) -> bool:
        return self.root(one) == self.root(other)

    def join(self, one: int, other: int) -> None:
        self._parents[max(self.root(one), self.root(other))] = min(self.root(one), self.root(other))


def folds(groups: NDArray[np.int64], num_folds: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """A fold for each prompt: whole groups in one fold, and folds of about equal size, large groups dealt first.

    Raises:
        ValueError: fewer groups than folds.
    """
    names, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < num_folds:
        raise ValueError(f"{len(names)} groups of prompts cannot be dealt to {num_folds} folds")
    shuffled = generator.permutation(len(names))
    loads = np.zeros(num_folds)
    fold_of = np.zeros(len(names), dtype=np.int64)
    for name in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[name] = int(np.argmin(loads))
        loads[fold_of[name]] += sizes[name]
    return fold_of[places]
