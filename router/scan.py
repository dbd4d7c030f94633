"""The bytes of a text, looked at once for all that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint64]

MAX_BYTES: Final = 3000
"""Of a text with more, which is one beyond ASCII, the first and the last half of this many are looked at."""
BLANK: Final = ord(" ")
_BASE: Final = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2⁶⁴: the hash of any slice comes from two prefix sums (Rabin–Karp)."""
_INVERSE: Final = pow(_BASE, -1, 2**64)
_ZERO_DIGITS: Final = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
_IS_WORD: Final = np.array([code >= 128 or chr(code).isalnum() or chr(code) == "_" for code in range(256)])


@dataclass(frozen=True, slots=True)
class Scan:
    """A text's bytes, every digit being a 0: the shape of a number is kept, its value says little of a task."""

    data: Bytes
    """As they are."""
    line: Bytes
    """Between two blanks, any white space in it being one blank."""
    word_starts: Places
    """In `line`. A word is letters, digits, underscores, and whatever is beyond ASCII."""
    word_ends: Places
    _prefix: Hashes

    def hashes(self, starts: Places, ends: Places) -> Hashes:
        """Σ (byte + 1)·base^(position within the slice) modulo 2⁶⁴, for each slice of `line`."""
        return (self._prefix[ends] - self._prefix[starts]) * self._inverses()[starts]

    def hashes_of_runs(self, length: int) -> Hashes:
        """The same for every slice of `length` bytes, in order."""
        num = max(0, len(self.line) - length + 1)
        return (self._prefix[length : length + num] - self._prefix[:num]) * self._inverses()[:num]

    def _inverses(self) -> Hashes:
        return _powers(_INVERSE, _rounded(len(self.line) + 1))


def scan(text: str) -> Scan:
    """Look at the bytes of `text`."""
    # A lone surrogate, which a JSON escape can bring, has no bytes: it counts as a question mark.
    encoded = text.encode("utf-8", errors="replace").translate(_ZERO_DIGITS)
    if len(encoded) > MAX_BYTES:
        encoded = encoded[: MAX_BYTES // 2] + b"\n" + encoded[-MAX_BYTES // 2 :]
    data = np.frombuffer(encoded, dtype=np.uint8)
    line = np.frombuffer(b" %b " % b" ".join(encoded.split()), dtype=np.uint8)
    is_word = _IS_WORD[line]
    edges = np.flatnonzero(is_word[1:] != is_word[:-1])
    prefix = np.zeros(len(line) + 1, np.uint64)
    np.cumsum((line + np.uint64(1)) * _powers(_BASE, _rounded(len(line)))[: len(line)], out=prefix[1:])
    return Scan(data, line, edges[0::2] + 1, edges[1::2] + 1, prefix)


def _rounded(num: int) -> int:
    """So that a few lengths of tables serve all texts."""
    return max(1024, 1 << (num - 1).bit_length())


@lru_cache(maxsize=32)
def _powers(base: int, num: int) -> Hashes:
    """base⁰ … base^(num−1) modulo 2⁶⁴."""
    factors = np.full(num, base, dtype=np.uint64)
    factors[:1] = 1
    powers = np.cumprod(factors)
    powers.flags.writeable = False
    return powers
