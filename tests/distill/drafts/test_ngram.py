"""Prompt look-up."""

from __future__ import annotations

import torch

from distill.calibration import CalibrationText
from distill.drafts.acceptance import measure
from distill.drafts.ngram import NgramDraft, look_up


def test_what_followed_is_proposed() -> None:
    """The longest ending wins over a more recent shorter one, and of equals the most recent."""
    assert look_up((1, 2, 3, 9, 2, 3, 8, 1, 2, 3), 2) == (9, 2)
    assert look_up((2, 3, 9, 2, 3, 8, 2, 3), 2) == (8, 2)
    assert look_up((5, 6, 5), 4) == (6, 5)


def test_what_was_never_said_proposes_nothing() -> None:
    """Nor does one token alone, nor an ending shorter than the least."""
    assert look_up((1, 2, 3), 2) == ()
    assert look_up((1,), 2) == ()
    assert look_up((1, 2, 1), 2, min_ngram=2) == ()


def test_a_copied_prompt() -> None:
    """An answer that repeats the prompt is taken whole; where rounds begin decides what is proposed."""
    draft = NgramDraft()
    copied = CalibrationText("copy", (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7))
    chances = draft.chances(copied, 3)
    assert chances.taken[0].tolist() == [1, 0, 0]  # no round begins before the answer's second token
    assert chances.taken[2:].bool().all()
    (found,) = measure(draft, [copied], 3)
    assert found.block_efficiency == 6 / 2
    other = draft.chances(CalibrationText("other", (1, 2, 3), (4, 5, 6)), 2)
    assert not torch.any(other.taken)
    assert not torch.any(other.is_proposed)
