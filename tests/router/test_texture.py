"""Texture: counts on a worked text, and what does not change them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.features import read
from router.scan import scan
from router.texture import texture


def texture_of(text: str) -> dict[str, float]:
    reading = read((text,))
    return texture(reading, scan(reading.text))


def test_worked_text() -> None:
    """Two lines, nine words, two sentences: each figure by hand."""
    told = texture_of('Is "x" not 10? I-say: (no).\nextraordinary a_b')
    words = ["is", "x", "not", "10", "i", "say", "no", "extraordinary", "a_b"]
    lengths = np.array([len(word) for word in words])
    assert told["words"] == pytest.approx(np.log2(1 + 9))
    assert (told["word_length"], told["word_spread"]) == (
        pytest.approx(lengths.mean()),
        pytest.approx(lengths.std()),
    )
    assert told["long_words"] == pytest.approx(1 / 9)
    assert told["digits"] == pytest.approx(2 / 45)
    assert (told["hyphens"], told["commas"]) == (pytest.approx(1 / 9), 0)
    assert (told["quotes"], told["brackets"], told["colons"], told["blanks"]) == (
        pytest.approx(np.log2(3)),
        1.0,
        1.0,
        1.0,
    )
    assert (told["sentences"], told["sentence_length"]) == (pytest.approx(np.log2(3)), 3.0)
    assert (told["line_length"], told["line_spread"]) == (pytest.approx(22.0), pytest.approx(5.0))
    assert (told["first_line"], told["last_line"]) == (pytest.approx(np.log2(28)), pytest.approx(np.log2(18)))
    assert told["negations"] == 2
    assert told["persons"] == pytest.approx(1 / 9)


@given(st.text(max_size=200))
def test_any_text_has_finite_texture(text: str) -> None:
    """The same names in the same order, and no figure that is not finite or below 0."""
    told = texture_of(text)
    assert list(told) == list(texture_of(""))
    assert all(0 <= value < 1e6 for value in told.values())


def test_case_changes_nothing() -> None:
    """The same text in capitals has the same texture."""
    text = "Prove it, then say why; I am not sure.\nIs it?"
    assert texture_of(text.upper()) == texture_of(text)


def test_space_within_a_line_changes_only_what_counts_bytes() -> None:
    """Wider gaps leave words, sentences and marks as they are."""
    plain, wide = texture_of("a cat sat. on a mat"), texture_of("a   cat sat.   on a  mat")
    changed = {name for name in plain if plain[name] != wide[name]}
    assert changed <= {"characters", "digits", "punctuation", "line_length", "first_line", "last_line"}
