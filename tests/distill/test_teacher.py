"""Teachers of other tokens are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from distill.teacher import PROBE, TokenizerMismatchError, require_same_tokens


@dataclass(frozen=True)
class _Pieces:
    vocab: Mapping[str, int]
    pattern: str = "."

    def get_vocab(self) -> Mapping[str, int]:
        return self.vocab

    def encode(self, text: str) -> Sequence[int]:
        return [self.vocab.get(piece, 0) for piece in re.findall(self.pattern, text, re.DOTALL)]


VOCAB = {"?": 0, "o": 1, "r": 2, "or": 3}


def test_the_same_is_taken() -> None:
    """Equal vocabularies that cut alike pass."""
    require_same_tokens(_Pieces(VOCAB), _Pieces(dict(VOCAB)))


def test_one_size_is_not_one_vocabulary() -> None:
    """Two ids exchanged are found and named, though both vocabularies have four pieces."""
    with pytest.raises(TokenizerMismatchError, match=r"2 pieces differ, 'o' for one is 1 .* and 2"):
        require_same_tokens(_Pieces(VOCAB), _Pieces(VOCAB | {"o": 2, "r": 1}))


def test_one_vocabulary_is_not_one_way_to_cut() -> None:
    """Merging where the other does not is found by the probe."""
    assert "or" in PROBE
    with pytest.raises(TokenizerMismatchError, match="differently"):
        require_same_tokens(_Pieces(VOCAB), _Pieces(VOCAB, "or|."))
