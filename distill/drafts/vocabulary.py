"""The few tokens that a head can draft: those its target says most often. Most of a small head's cost is its output.

`d2t` and `t2d` are as vLLM reads them: a draft id d is the target's token d + d2t[d]; t2d[t] says whether t can be
drafted. Drafted tokens stand in the target's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DraftVocabulary:
    """Which of the target's tokens can be drafted."""

    token_ids: tuple[int, ...]
    """Rising, distinct."""
    num_target: int
    """V."""

    @property
    def d2t(self) -> Tensor:
        """(tokens,), long: what is added to a draft id."""
        return torch.tensor(self.token_ids) - torch.arange(len(self.token_ids))

    @property
    def t2d(self) -> Tensor:
        """(V,), bool."""
        found = torch.zeros(self.num_target, dtype=torch.bool)
        found[list(self.token_ids)] = True
        return found

    def coverage(self, answers: Iterable[Sequence[int]]) -> float:
        """The share of these answers' tokens that can be drafted; no acceptance is higher on greedy text."""
        known, said = set(self.token_ids), Counter(token for answer in answers for token in answer)
        return sum(num for token, num in said.items() if token in known) / max(1, said.total())


def most_frequent(
    answers: Iterable[Sequence[int]], size: int, num_target: int, *, end_token_id: int
) -> DraftVocabulary:
    """The tokens said most often, and the end; where fewer were said, the first of the vocabulary fill up.

    Raises:
        ValueError: more are asked for than there are.
    """
    if not 0 < size <= num_target:
        raise ValueError(f"a draft vocabulary of {size}, and the target has {num_target} tokens; take fewer")
    said = Counter(token for answer in answers for token in answer)
    by_count = sorted(said, key=lambda token: (-said[token], token))
    order = dict.fromkeys([end_token_id, *by_count, *range(num_target)])
    return DraftVocabulary(tuple(sorted([*order][:size])), num_target)
