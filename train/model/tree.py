"""Sequences that begin alike, laid in one line as a tree: what they share is computed once, whoever shares it.

A chat model's system prompt, the words that a domain's questions begin with, a group's prompt, answers that are the
same so far: all are paths that part later. The line is in depth-first order, so what follows a token, directly or not,
stands right behind it, and one law says who sees whom: the token at i sees the one at j where j ≤ i < ends[j].

    sequences:  a b c, a b d, a e        line:  a b c d e        ends:  5 4 3 4 5        paths:  0 1 2, 0 1 3, 0 4

States, losses and gradients are those of each sequence alone: a shared token's gradient is the sum of what its copies
would have had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PIECE_TOKENS = 512
"""A long piece is attended in parts, so that what is computed in vain, what comes later, is small."""


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Sequences laid as a tree; N tokens."""

    token_ids: tuple[int, ...]
    """(N,)."""
    positions: tuple[int, ...]
    """(N,): each token's place in its sequences."""
    ends: tuple[int, ...]
    """(N,): one behind the last token that follows it."""
    paths: tuple[tuple[int, ...], ...]
    """For each sequence, in the order in which they were given, where its tokens are in the line."""


def grow(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """The tree of some sequences; empty ones are allowed and have empty paths."""
    token_ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    paths: list[tuple[int, ...]] = [()] * len(sequences)
    path: list[int] = []
    before: Sequence[int] = ()
    # in lexicographic order, a sequence parts from the tree where it parts from its predecessor
    for index in sorted(range(len(sequences)), key=lambda each: tuple(sequences[each])):
        tokens = sequences[index]
        shared = _num_shared(before, tokens)
        for place in path[shared:]:
            ends[place] = len(token_ids)
        new = range(len(token_ids), len(token_ids) + len(tokens) - shared)
        path[shared:] = new
        token_ids += tokens[shared:]
        positions += range(shared, len(tokens))
        ends += [0] * len(new)
        paths[index] = tuple(path)
        before = tokens
    for place in path:
        ends[place] = len(token_ids)
    return TokenTree(tuple(token_ids), tuple(positions), tuple(ends), tuple(paths))


def _num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens in which both begin alike."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbours in the line that are attended together."""

    before: tuple[int, ...]
    """What all of them follow, in order; together with the block itself, all that any of them sees."""
    start: int
    stop: int

    @property
    def num_queries(self) -> int:
        """Tokens that look."""
        return self.stop - self.start

    @property
    def num_seen(self) -> int:
        """Tokens that are looked at by some."""
        return len(self.before) + self.num_queries


def cut(tree: TokenTree, most: int) -> list[Block]:
    """The line in blocks: as many neighbouring subtrees as have `most` tokens, or a part of one that is larger.

    Blocks are in the order of the line. The smaller `most`, the less is computed for pairs of tokens that do not see
    each other, and the more blocks there are. Unbranched pieces are cut at `PIECE_TOKENS`.
    """
    blocks: list[Block] = []
    waiting: list[tuple[tuple[int, ...], int, int]] = [((), 0, len(tree.token_ids))]
    while waiting:
        before, start, stop = waiting.pop()
        first = begun = start
        while begun < stop:
            end = tree.ends[begun]
            if end - first <= most:
                begun = end
            elif begun > first:  # the subtrees so far are a block; the next one is looked at again
                blocks.append(Block(before, first, begun))
                first = begun
            else:
                fork = _fork(tree, begun)
                blocks.append(Block(before, begun, fork))
                waiting.append((before, end, stop))
                waiting.append((before + tuple(range(begun, fork)), fork, end))
                break
        else:
            if first < stop:
                blocks.append(Block(before, first, stop))
    return blocks


def _fork(tree: TokenTree, start: int) -> int:
    """One behind the last token of the unbranched piece that begins at `start`, or of its first part."""
    place, last = start + 1, min(start + PIECE_TOKENS, tree.ends[start])
    while place < last and tree.ends[place] == tree.ends[start]:
        place += 1
    return place
