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

LEAST_SIMILARITY: Final = 0.7
"""High enough that tasks of one template with other content are not duplicates of each other."""
NUM_BANDS: Final = 24
ROWS_PER_BAND: Final = 5
"""24 bands of 5 find a pair that is 0.7 alike with probability 0.99, and one that is 0.8 alike with 0.9999."""
MAX_HEADS: Final = 30
"""A prompt is compared with so many of its band that are unlike each other. It bounds the time of a band that many fall
into; other bands find what it misses."""


def duplicate_groups(prompts: Sequence[Buckets]) -> NDArray[np.int64]:
    """A group number for each prompt's `word_buckets`; near-duplicates, and theirs, have the same one."""
    groups = _Groups(len(prompts))
    for band in _bands(prompts):
        heads: list[int] = []
        for place in band:
            alike = [
                head for head in heads if groups.are_joined(head, place) or _are_alike(prompts, head, place)
            ]
            for head in alike:
                groups.join(head, place)
            if not alike and len(heads) < MAX_HEADS:
                heads.append(place)
    return np.array([groups.root(place) for place in range(len(prompts))], dtype=np.int64)


def _bands(prompts: Sequence[Buckets]) -> Iterator[list[int]]:
    """Prompts that share a band, in their order."""
    generator = np.random.Generator(np.random.PCG64(0))  # fixed: the groups are part of what a fit is
    factors = generator.integers(0, 2**63, NUM_BANDS * ROWS_PER_BAND, dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    bands: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        if not len(prompt.indices):
            continue
        # Multiply-shift hashing (Dietzfelbinger et al. 1997): the product wraps, and its upper bits count.
        hashes = ((prompt.indices.astype(np.uint64) + np.uint64(1))[:, None] * factors) >> np.uint64(20)
        smallest = hashes.min(axis=0).reshape(NUM_BANDS, ROWS_PER_BAND)
        for band, values in enumerate(smallest):
            bands[band.to_bytes(2, "big") + values.tobytes()].append(place)
    return (places for places in bands.values() if len(places) > 1)


def _are_alike(prompts: Sequence[Buckets], one: int, other: int) -> bool:
    first, second = prompts[one].indices, prompts[other].indices
    num_shared = len(np.intersect1d(first, second, assume_unique=True))
    return num_shared >= LEAST_SIMILARITY * (len(first) + len(second) - num_shared)


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
