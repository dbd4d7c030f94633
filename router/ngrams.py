"""Hashed n-grams of a text: which words, runs of words and runs of characters stand in it, as bucket counts.

All of it is array arithmetic over a casefolded text's bytes (`router.scan`), so that 4,000 characters take a fraction
of a millisecond. Hashes depend on nothing but the bytes: they are the same in every process and on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.scan import Scan

NGRAMS_VERSION: Final = "ngrams-1"
"""Changes with any change to what a bucket means."""

NUM_BUCKETS: Final = 2**18
"""Of words and of characters, each; a power of 2."""
MAX_WORDS: Final = 3
"""The longest run of words that is a bucket of its own."""
NUM_CHARACTERS: Final = 6
"""Bytes in a run of characters."""

_NEXT_WORD: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX: Final = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets that a text falls into, each once and in order, and how often it does."""

    indices: NDArray[np.uint32]
    counts: NDArray[np.float32]


def word_buckets(scan: Scan) -> Buckets:
    """Words and runs of up to `MAX_WORDS` of them."""
    words = scan.hashes(scan.word_starts, scan.word_ends)
    runs = [words]
    for _ in range(MAX_WORDS - 1):
        runs.append(runs[-1][:-1] * _NEXT_WORD + words[len(runs) :])
    return _count(np.concatenate(runs))


def character_buckets(scan: Scan) -> Buckets:
    """Runs of `NUM_CHARACTERS` bytes of the text on one line."""
    return _count(scan.hashes_of_runs(NUM_CHARACTERS))


def _count(hashes: NDArray[np.uint64]) -> Buckets:
    mixed = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    buckets = (mixed >> np.uint64(40)).astype(np.uint32) & np.uint32(NUM_BUCKETS - 1)
    buckets.sort()
    is_first = np.ones(len(buckets), dtype=np.bool_)
    np.not_equal(buckets[1:], buckets[:-1], out=is_first[1:])
    edges = np.append(np.flatnonzero(is_first), len(buckets))
    return Buckets(buckets[edges[:-1]], (edges[1:] - edges[:-1]).astype(np.float32))
