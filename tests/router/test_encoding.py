"""Encoding: what a row holds, and what disguises do not change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from router.encoding import FEATURE_WEIGHT, MAX_DEVIATIONS, encode, feature_names, fit_columns
from router.ngrams import NUM_BUCKETS
from router.request import RequestView

TEXTS = ("Prove that 3 divides n.", "Prove that 5 divides m.", "What is the capital of France?")


def view(*turns: str) -> RequestView:
    return RequestView(endpoint="chat", model="auto", turns=turns, num_chars=sum(map(len, turns)))


COLUMNS = fit_columns([encode(view(text)) for text in TEXTS])


def test_blocks_have_length_one() -> None:
    """Words and characters are each brought to length 1; features are held to a few deviations."""
    row = COLUMNS.row(encode(view(TEXTS[0])))
    num = len(COLUMNS.feature_mean)
    words = (row.columns >= num) & (row.columns < num + NUM_BUCKETS)
    characters = row.columns >= num + NUM_BUCKETS
    for block in (words, characters):
        assert np.sum(row.values[block] ** 2) == pytest.approx(1.0, rel=1e-5)
    assert np.all(np.abs(row.values[:num]) <= FEATURE_WEIGHT * MAX_DEVIATIONS + 1e-6)
    assert len(set(row.columns.tolist())) == len(row.columns)
    assert row.columns.max() < COLUMNS.num


def test_only_what_was_seen_twice_counts() -> None:
    """A word of one prompt alone is no column; "prove that", digits being alike, is one."""
    assert COLUMNS.rarity(encode(view("prove that")))[0] == 0.0
    assert COLUMNS.rarity(encode(view("capital france"))).tolist() == [1.0, 0.0]
    assert COLUMNS.rarity(encode(view("?"))).tolist() == [0.0, 0.0]


def test_feature_that_never_varied_is_silent() -> None:
    """None of the prompts had a second turn, so a second turn moves nothing by being one."""
    features = encode(view("hi", "hi")).features
    scales = COLUMNS.feature_scale
    assert np.all((scales > 0) | (COLUMNS.row(encode(view("hi", "hi"))).values[: len(features)] == 0))
    assert 0 in scales.tolist()


def test_names_fit_the_features() -> None:
    """Each feature has one name."""
    assert len(set(feature_names())) == len(feature_names()) == len(COLUMNS.feature_mean)


def test_unknown_text_is_features_alone() -> None:
    """A prompt without one known bucket has no n-gram columns, and no division by zero."""
    row = COLUMNS.row(encode(view("ὕδωρ")))
    assert len(row.columns) == len(COLUMNS.feature_mean)
    assert np.all(np.isfinite(row.values))


@pytest.mark.parametrize(
    "disguise", [str.upper, lambda text: text.replace(" ", "\n  "), lambda text: f"  {text}\n"]
)
def test_disguises(disguise: Callable[[str], str]) -> None:
    """Case and white space leave every n-gram where it was."""
    plain, disguised = encode(view(TEXTS[0])), encode(view(disguise(TEXTS[0])))
    assert plain.words.indices.tolist() == disguised.words.indices.tolist()
    assert plain.characters.counts.tolist() == disguised.characters.counts.tolist()
