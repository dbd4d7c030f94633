"""A tree holds every sequence once as far as it is shared, and its blocks hold all that is seen."""

from __future__ import annotations

import pytest
import torch

from train.model.tree import PIECE_TOKENS, cut, grow


def sequences(num: int, seed: int, *, most: int = 12, num_kinds: int = 3) -> list[tuple[int, ...]]:
    """Random ones of few kinds of tokens, which therefore begin alike often; some twice, some empty."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(most, (num,), generator=draw).tolist()
    return [tuple(torch.randint(num_kinds, (length,), generator=draw).tolist()) for length in lengths]


def test_a_tree_by_hand() -> None:
    """The example of the module; the order in which sequences come changes their paths alone."""
    tree = grow(["abc", "abd", "ae"])  # type: ignore[list-item]  # characters are tokens as good as any
    assert "".join(map(str, tree.token_ids)) == "abcde"
    assert tree.positions == (0, 1, 2, 2, 1)
    assert tree.ends == (5, 4, 3, 4, 5)
    assert tree.paths == ((0, 1, 2), (0, 1, 3), (0, 4))
    assert grow(["ae", "abc", "abd"]).paths == ((0, 4), (0, 1, 2), (0, 1, 3))  # type: ignore[list-item]


@pytest.mark.parametrize("seed", range(20))
def test_paths_spell_sequences_and_every_beginning_stands_once(seed: int) -> None:
    """The tokens on a path are the sequence's, at its positions; the line is as long as there are beginnings."""
    given = sequences(20, seed)
    tree = grow(given)
    for sequence, path in zip(given, tree.paths, strict=True):
        assert tuple(tree.token_ids[place] for place in path) == sequence
        assert [tree.positions[place] for place in path] == list(range(len(sequence)))
        for later in path:
            follows = [place for place in range(later + 1) if later < tree.ends[place]]
            assert follows == list(path[: path.index(later) + 1]), "the law of who sees whom"
    assert len(tree.token_ids) == len({s[:n] for s in given for n in range(1, len(s) + 1)})


@pytest.mark.parametrize("most", [1, 3, 8, 1000])
@pytest.mark.parametrize("seed", range(10))
def test_blocks_cover_the_line_and_hold_all_that_is_seen(seed: int, most: int) -> None:
    """Each token is in one block, in order, with all that it follows; blocks are of the size asked, or unbranched."""
    tree = grow(sequences(30, seed, num_kinds=2))
    blocks = cut(tree, most)
    assert [place for block in blocks for place in range(block.start, block.stop)] == list(
        range(len(tree.ends))
    )
    for block in blocks:
        for later in range(block.start, block.stop):
            follows = {place for place in range(later + 1) if later < tree.ends[place]}
            assert follows <= {*block.before, *range(block.start, block.stop)}
            assert set(block.before) <= follows, "what stands before a block is seen by all of it"
        is_unbranched = all(
            tree.ends[place] == tree.ends[block.start] for place in range(block.start, block.stop)
        )
        assert block.num_queries <= most or is_unbranched


def test_long_pieces_are_cut() -> None:
    """An unbranched sequence becomes pieces, each before the next."""
    blocks = cut(grow([tuple(range(PIECE_TOKENS * 2 + 5))]), 8)
    assert [block.num_queries for block in blocks] == [PIECE_TOKENS, PIECE_TOKENS, 5]
    assert [len(block.before) for block in blocks] == [0, PIECE_TOKENS, 2 * PIECE_TOKENS]


def test_nothing_is_a_tree_too() -> None:
    """No sequences, or empty ones, make an empty line."""
    assert grow([]).paths == ()
    assert grow([(), ()]).paths == ((), ())
    assert cut(grow([()]), 8) == []
