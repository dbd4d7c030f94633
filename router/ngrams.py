"""Hashed n-grams of a text: which words, runs of words and runs of characters stand in it, as bucket counts.

All of it is array arithmetic over the text's bytes, so that 4,000 characters take a fraction of a millisecond. Hashes
depend on nothing but the bytes: they are the same in every process and on every machine. Digits count as 0: the shape
of a number is kept, its value says little of how hard a task is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

NGRAMS_VERSION: Final = "ngrams-1"
"""Changes with any change to what a bucket means."""

NUM_BUCKETS: Final = 2**18
"""Of words and of characters, each."""
MAX_WORDS: Final = 3
"""The longest run of words that is a bucket of its own."""
NUM_CHARACTERS: Final = 6
"""Bytes in a run of characters."""

_BASE: Final = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2⁶⁴: the hash of any slice comes from two prefix sums (Rabin–Karp)."""
_INVERSE: Final = pow(_BASE, -1, 2**64)
_NEXT_WORD: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX: Final = np.uint64(0xD6E8FEB86659FD93)
_ZERO_DIGITS: Final = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
_IS_WORD: Final = np.array([code >= 128 or chr(code).isalnum() or chr(code) == "_" for code in range(256)])


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets that a text falls into, each once and in order, and how often it does."""

    indices: NDArray[np.uint32]
    counts: NDArray[np.float32]


def word_buckets(text: str) -> Buckets:
    """Words of a casefolded text and runs of up to `MAX_WORDS` of them."""
    data = _bytes(text)
    edges = np.flatnonzero(np.diff(_IS_WORD[data], prepend=False, append=False))
    words = _slice_hashes(data, edges[0::2], edges[1::2])
    runs = [words]
    for _ in range(MAX_WORDS - 1):
        runs.append(runs[-1][:-1] * _NEXT_WORD + words[len(runs) :])
    return _count(np.concatenate(runs))


def character_buckets(text: str) -> Buckets:
    """Runs of `NUM_CHARACTERS` bytes of a casefolded text between two blanks, any white space in it being one blank."""
    data = _bytes(f" {' '.join(text.split())} ")
    starts = np.arange(max(0, len(data) - NUM_CHARACTERS + 1))
    return _count(_slice_hashes(data, starts, starts + NUM_CHARACTERS))


def _bytes(text: str) -> NDArray[np.uint8]:
    # A lone surrogate, which a JSON escape can bring, has no bytes: it counts as a question mark.
    return np.frombuffer(text.encode("utf-8", errors="replace").translate(_ZERO_DIGITS), dtype=np.uint8)


def _slice_hashes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Σ (byte + 1)·base^(position within the slice) modulo 2⁶⁴, for each slice."""
    prefix = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data + np.uint64(1)) * _powers(_BASE, len(data)), out=prefix[1:])
    return (prefix[ends] - prefix[starts]) * _powers(_INVERSE, len(data) + 1)[starts]


def _powers(base: int, num: int) -> NDArray[np.uint64]:
    """base⁰ … base^(num−1) modulo 2⁶⁴."""
    factors = np.full(num, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def _count(hashes: NDArray[np.uint64]) -> Buckets:
    mixed = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    buckets = np.sort((mixed >> np.uint64(40)).astype(np.uint32) % np.uint32(NUM_BUCKETS))
    firsts = np.flatnonzero(np.diff(buckets, prepend=np.uint32(NUM_BUCKETS)))
    counts = np.diff(firsts, append=len(buckets)).astype(np.float32)
    return Buckets(buckets[firsts], counts)
