"""Hashed n-grams: the array arithmetic gives what a plain loop gives, and the same everywhere."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.ngrams import NUM_BUCKETS, NUM_CHARACTERS, Buckets
from router.ngrams import character_buckets as character_buckets_of
from router.ngrams import word_buckets as word_buckets_of
from router.scan import scan

BASE, NEXT_WORD, MIX, WRAP = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 2**64

texts = st.text(max_size=80) | st.text("ab 0\n.é", max_size=40)


def word_buckets(text: str) -> Buckets:
    return word_buckets_of(scan(text))


def character_buckets(text: str) -> Buckets:
    return character_buckets_of(scan(text))


def slow_hash(piece: bytes) -> int:
    return sum((byte + 1) * pow(BASE, place, WRAP) for place, byte in enumerate(piece)) % WRAP


def slow_buckets(hashes: Iterable[int]) -> dict[int, int]:
    return Counter(((value ^ (value >> 32)) * MIX % WRAP >> 40) % NUM_BUCKETS for value in hashes)


def as_dict(buckets: Buckets) -> dict[int, int]:
    assert list(buckets.indices) == sorted(set(buckets.indices.tolist()))
    return dict(zip(buckets.indices.tolist(), buckets.counts.tolist(), strict=True))


def plain(text: str) -> bytes:
    return re.sub(rb"[0-9]", b"0", text.encode("utf-8", errors="replace"))


@given(texts)
def test_words_equal_the_slow_reference(text: str) -> None:
    """Words, pairs and triples are hashed one by one to the same buckets."""
    words = [slow_hash(word) for word in re.findall(rb"[0-9A-Za-z_\x80-\xff]+", plain(text))]
    pairs = [(one * NEXT_WORD + two) % WRAP for one, two in itertools.pairwise(words)]
    triples = [(pair * NEXT_WORD + word) % WRAP for pair, word in zip(pairs, words[2:], strict=False)]
    assert as_dict(word_buckets(text)) == slow_buckets([*words, *pairs, *triples])


@given(texts)
def test_characters_equal_the_slow_reference(text: str) -> None:
    """Every run of six bytes between blanks is hashed to the same bucket."""
    data = b" " + b" ".join(plain(text).split()) + b" "
    runs = [data[i : i + NUM_CHARACTERS] for i in range(len(data) - NUM_CHARACTERS + 1)]
    assert as_dict(character_buckets(text)) == slow_buckets(map(slow_hash, runs))


def test_buckets_are_the_same_in_every_process() -> None:
    """The bucket of a word is part of every artifact: it must never move."""
    assert word_buckets("prime").indices.tolist() == [69466]
    assert word_buckets("37").indices.tolist() == word_buckets("42").indices.tolist()


@pytest.mark.parametrize("text", ["", " ", "\ud800", "?" * 5000, "x" * 20_000])
def test_edges(text: str) -> None:
    """No text, no word, a lone surrogate and one endless word are read without a fault."""
    assert sum(word_buckets(text).counts) <= 6
    assert (
        len(character_buckets(text).indices) <= 12
    )  # of one character, at the ends, and where both ends meet


def test_white_space_is_one_blank() -> None:
    """However words are set apart, the runs of characters are the same."""
    assert as_dict(character_buckets("a  b\n\nc d")) == as_dict(character_buckets("a b c d"))
