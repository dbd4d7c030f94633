"""Prompt look-up: what followed the last words when they were last said is proposed again. No model, next to no time.

The longest of the last `max_ngram` … `min_ngram` tokens that was said before counts, at its most recent place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from distill.calibration import CalibrationText
from distill.drafts.acceptance import Chances


def look_up(
    token_ids: Sequence[int], num_drafts: int, *, max_ngram: int = 3, min_ngram: int = 1
) -> tuple[int, ...]:
    """At most `num_drafts` tokens to follow these; none where their end was never said before."""
    for size in range(min(max_ngram, len(token_ids) - 1), min_ngram - 1, -1):
        ending = tuple(token_ids[-size:])
        for start in range(len(token_ids) - size - 1, -1, -1):
            if tuple(token_ids[start : start + size]) == ending:
                return tuple(token_ids[start + size : start + size + num_drafts])
    return ()


class NgramDraft:
    """A `Draft` by look-up: its chances are 1 where it proposes what was said, at any temperature.

    Args:
        max_ngram: tokens that have to be said again, at most.
        min_ngram: and at least.
    """

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        self._sizes = (max_ngram, min_ngram)

    def chances(self, text: CalibrationText, num_drafts: int) -> Chances:
        """As `Draft`; the agreement is with what was said, for nobody asks the target."""
        said = text.drafted
        taken = torch.zeros(len(said), num_drafts)
        is_proposed = torch.zeros(len(said), num_drafts, dtype=torch.bool)
        max_ngram, min_ngram = self._sizes
        for start in range(len(said)):
            before = (*text.prompt, *text.answer[: start + 1])
            proposed = look_up(before, num_drafts, max_ngram=max_ngram, min_ngram=min_ngram)
            for place, token in enumerate(proposed[: len(said) - start]):
                is_proposed[start + place, place] = True
                taken[start + place, place] = float(token == said[start + place])
        return Chances(taken, None, taken.bool(), is_proposed)
