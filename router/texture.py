"""The texture of a text: how long its words, sentences and lines are, and what stands between them.

Unlike structure (`router.features`) these say nothing by themselves; a fitted model finds out what they tell about its
tiers. None of them looks at letter case, at a particular layout, or at what any word means, but for a few little ones.
"""

from __future__ import annotations

from math import log2, sqrt
from typing import Final

import numpy as np

from router.features import Reading
from router.scan import BLANK, Bytes, Places, Scan

TEXTURE_VERSION: Final = "texture-1"
"""Changes with any change to what a feature means."""

LONG_WORD: Final = 10
"""Bytes."""
NEGATIONS: Final = frozenset(
    {"not", "no", "nor", "never", "none", "without", "except", "least", "false", "incorrect"}
)
PERSONS: Final = frozenset(
    {"i", "me", "my", "we", "our", "you", "your", "he", "him", "his", "she", "her", "they"}
)
LITTLE_WORDS: Final = frozenset(
    {
        "the",
        "a",
        "an",
        "of",
        "and",
        "or",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "with",
        "from",
        "as",
        "that",
        "this",
    }
    | {"is", "are", "was", "were", "be", "it", "its", "which"}
)
_PUNCTUATION: Final = tuple(code for code in range(33, 127) if not chr(code).isalnum())
_ENDS_SENTENCE: Final = np.array([chr(code) in ".!?" for code in range(256)])


def texture(reading: Reading, scan: Scan) -> dict[str, float]:
    """The texture of a text by name, always the same names in the same order. `scan` is of the reading's text."""
    counts = np.bincount(scan.data, minlength=256).tolist()
    num_bytes, num_words = max(1, len(scan.data)), max(1, len(scan.word_starts))
    word_lengths, line_lengths = scan.word_ends - scan.word_starts, _line_lengths(scan.data)
    num_sentences = 1 + int(np.count_nonzero(_ENDS_SENTENCE[scan.line[:-1]] & (scan.line[1:] == BLANK)))
    num_punctuation = sum(counts[code] for code in _PUNCTUATION)
    return {
        "characters": log2(1 + len(scan.data)),
        "words": log2(1 + len(scan.word_starts)),
        "lines": log2(1 + len(line_lengths)),
        "word_length": _mean(word_lengths),
        "word_spread": _spread(word_lengths),
        "long_words": int(np.count_nonzero(word_lengths >= LONG_WORD)) / num_words,
        "variety": len(reading.vocabulary) / max(1, len(reading.words)),
        "digits": counts[ord("0")] / num_bytes,
        "punctuation": num_punctuation / num_bytes,
        "commas": counts[ord(",")] / num_words,
        "hyphens": counts[ord("-")] / num_words,
        "apostrophes": counts[ord("'")] / num_words,
        "quotes": log2(1 + counts[ord('"')]),
        "brackets": log2(1 + counts[ord("(")] + counts[ord("[")] + counts[ord("{")]),
        "colons": log2(1 + counts[ord(":")] + counts[ord(";")]),
        "blanks": log2(1 + counts[ord("_")]),
        "sentences": log2(num_sentences),
        "sentence_length": num_words / num_sentences,
        "line_length": _mean(line_lengths),
        "line_spread": _spread(line_lengths),
        "first_line": log2(1 + float(line_lengths[0])) if len(line_lengths) else 0.0,
        "last_line": log2(1 + float(line_lengths[-1])) if len(line_lengths) else 0.0,
        "negations": float(len(reading.vocabulary & NEGATIONS)),
        "persons": sum(map(PERSONS.__contains__, reading.words)) / num_words,
        "little_words": sum(map(LITTLE_WORDS.__contains__, reading.words)) / num_words,
    }


def _line_lengths(data: Bytes) -> Places:
    """Bytes in each line that is not empty."""
    breaks = np.concatenate(((-1,), np.flatnonzero(data == ord("\n")), (len(data),)))
    lengths = breaks[1:] - breaks[:-1] - 1
    return lengths[lengths > 0]


def _mean(lengths: Places) -> float:
    return int(lengths.sum()) / len(lengths) if len(lengths) else 0.0


def _spread(lengths: Places) -> float:
    """The standard deviation."""
    if not len(lengths):
        return 0.0
    mean = _mean(lengths)
    return sqrt(max(0.0, int(lengths @ lengths) / len(lengths) - mean * mean))
