"""Near-duplicates find each other, and folds keep them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.duplicates import duplicate_groups, folds
from router.ngrams import NUM_BUCKETS, Buckets, word_buckets
from router.scan import scan

TASK = (
    "a train leaves the station at nine and travels eighty kilometres in each hour while another one leaves a town "
    "that lies three hundred kilometres away half an hour later when do the two of them meet and where is that"
)


def test_changed_numbers_and_a_word_are_duplicates() -> None:
    """The same task with other numbers, or one word more, is a near-duplicate; another task is not."""
    prompts = [
        TASK,
        "how many legs do three cats have",
        TASK.replace("nine", "ten"),
        f"please {TASK}",
        "who wrote hamlet and when was it first played",
    ]
    groups = duplicate_groups([word_buckets(scan(prompt)) for prompt in prompts])
    assert groups[0] == groups[2] == groups[3]
    assert len({groups[0], groups[1], groups[4]}) == 3


def test_being_alike_is_handed_on() -> None:
    """Prompts that are near-duplicates of one and the same prompt are in one group."""
    words = TASK.split()
    prompts = [" ".join(words[:30]), " ".join(words[5:]), " ".join(words)]
    groups = duplicate_groups([word_buckets(scan(prompt)) for prompt in prompts])
    assert len(set(groups.tolist())) == 1


def test_pairs_are_found_at_the_stated_rate() -> None:
    """Of pairs that share three quarters of their buckets nearly all are found, and of pairs that share half none."""
    generator = np.random.default_rng(2)

    def groups_of_pairs(num_own: int) -> list[tuple[int, int]]:
        prompts = []
        for _ in range(150):
            drawn = generator.choice(NUM_BUCKETS, 40 + 2 * num_own, replace=False).astype(np.uint32)
            for own in (drawn[40 : 40 + num_own], drawn[40 + num_own :]):
                prompts.append(
                    Buckets(np.sort(np.concatenate((drawn[:40], own))), np.ones(40 + num_own, np.float32))
                )
        groups = duplicate_groups(prompts).reshape(-1, 2)
        return [(int(one), int(other)) for one, other in groups]

    assert np.mean([one == other for one, other in groups_of_pairs(6)]) > 0.98
    assert not any(one == other for one, other in groups_of_pairs(20))


def test_prompts_without_words() -> None:
    """A prompt without a word is nobody's duplicate."""
    assert duplicate_groups([word_buckets(scan(text)) for text in ("?", "!", "a b")]).tolist() == [0, 1, 2]


@given(st.lists(st.integers(0, 12), min_size=30, max_size=80), st.integers(0, 9))
def test_folds_split_no_group(groups: list[int], seed: int) -> None:
    """Each group is in one fold, and no fold is larger than its share and one group more."""
    numbers = np.array([*groups, 0, 1, 2])
    fold_of = folds(numbers, 3, np.random.default_rng(seed))
    for group in set(numbers.tolist()):
        assert len(set(fold_of[numbers == group].tolist())) == 1
    assert max(np.bincount(fold_of)) <= len(numbers) / 3 + max(np.bincount(numbers))


def test_too_few_groups() -> None:
    """Two groups cannot be dealt to three folds."""
    with pytest.raises(ValueError, match="2 groups"):
        folds(np.array([0, 0, 1]), 3, np.random.default_rng(0))
