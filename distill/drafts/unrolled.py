"""A head drafting from every token of a text at once: what its chains say, beside what the target said.

The head learns on what it will read when it drafts: at depth j it reads its own output of depth j − 1 (training-time
test, arXiv:2503.01840, section 3.1). The text is the target's, so that the tokens along a chain are known.

With r the place of a chain's root and t the tokens, depth j reads the embedding of t[r+1+j] and predicts t[r+2+j]; the
target predicts the same from its own state at r+1+j.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from distill.calibration import CalibrationText
from distill.drafts.acceptance import Chances
from distill.drafts.head import DraftHead
from distill.drafts.model_draft import Drawing, rule
from distill.drafts.rows import CausalRows, ChainRows
from train.model.llama import Llama


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text with what its target computed: T tokens, all but the answer's last."""

    text: CalibrationText
    """With something drafted."""
    fused: Tensor
    """(T, 3 E): states behind the fused layers, side by side."""
    hidden: Tensor
    """(drafted, E): the normed last states that predict the drafted tokens."""


@torch.no_grad()
def read(target: Llama, text: CalibrationText, layers: Sequence[int]) -> ReadText:
    """One pass of the target; alone, so that the numbers do not depend on what else is read."""
    device = target.lm_head.weight.device
    token_ids = torch.tensor((*text.prompt, *text.answer[:-1]), device=device)
    positions, attend = torch.arange(len(token_ids), device=device), CausalRows(1)
    states, found = target.model.embed_tokens(token_ids), []
    for start, stop in pairwise((0, *layers)):
        states = target.through(states, positions, attend, range(start, stop))
        found.append(states)
    states = target.through(states, positions, attend, range(layers[-1], target.shape.num_layers))
    return ReadText(text, torch.cat(found, dim=-1), target.model.norm(states[len(text.prompt) :]))


@dataclass(frozen=True, slots=True)
class Guesses:
    """One depth of all chains that have something to predict there; R of them, text by text."""

    logits: Tensor
    """(R, D)."""
    places: Tensor
    """(R,): what each predicts, an index into the drafted tokens of all texts end to end."""


def unroll(head: DraftHead, target: Llama, texts: Sequence[ReadText], num_depths: int) -> Iterator[Guesses]:
    """The guesses at each depth, 0 first; of a depth that no chain reaches there are none.

    Args:
        head: differentiated through.
        target: its embedding is read.
        texts: rows of one batch.
        num_depths: at least 1.
    """
    longest = max(len(each.fused) for each in texts)
    like = head.fc.weight
    fused = like.new_zeros(len(texts), longest, texts[0].fused.shape[-1])
    token_ids = torch.zeros(len(texts), longest + num_depths, dtype=torch.long, device=like.device)
    for row, each in enumerate(texts):
        fused[row, : len(each.fused)] = each.fused.to(like)
        came_next = (*each.text.prompt, *each.text.answer)[1:]
        token_ids[row, : len(came_next)] = torch.tensor(came_next, device=like.device)
    positions = torch.arange(longest, device=like.device).repeat(len(texts))
    states, attend = head.fc(fused.flatten(0, 1)), ChainRows(len(texts))
    for depth in range(num_depths):
        embedded = target.model.embed_tokens(token_ids[:, depth : depth + longest].flatten())
        states = head(embedded.detach().to(like), states, positions + depth, attend)
        rows, places = _predicting(texts, longest, depth)
        yield Guesses(head.logits(states[rows]), torch.tensor(places, dtype=torch.long, device=like.device))


def _predicting(texts: Sequence[ReadText], longest: int, depth: int) -> tuple[list[int], list[int]]:
    """Where in the batch something drafted is predicted at this depth, and which of the drafted tokens it is."""
    rows: list[int] = []
    places: list[int] = []
    begun = 0
    for row, each in enumerate(texts):
        # the first root is the prompt's last token: the answer's first, behind it, is known by then
        root, num = row * longest + len(each.text.prompt) - 1, len(each.text.drafted)
        rows += range(root, root + max(0, num - depth))
        places += range(begun + depth, begun + num)
        begun += num
    return rows, places


class HeadDraft:
    """A head as a `Draft`.

    Args:
        head: of this target.
        target: whose texts they are.
        drawing: how both choose.
    """

    def __init__(self, head: DraftHead, target: Llama, drawing: Drawing) -> None:
        self._head = head
        self._target = target
        self._drawing = drawing

    @torch.no_grad()
    def chances(self, text: CalibrationText, num_drafts: int) -> Chances:
        """As `Draft`; a round that begins at the prompt's last token is the first."""
        reading = read(self._target, text, self._head.fused)
        target = self._target.logits(reading.hidden)
        said = torch.tensor(text.drafted, device=target.device)
        taken, expected = (target.new_zeros(len(said), num_drafts) for _ in range(2))
        agrees, is_proposed = (torch.zeros_like(taken, dtype=torch.bool) for _ in range(2))
        for depth, guesses in enumerate(unroll(self._head, self._target, [reading], num_depths=num_drafts)):
            at = guesses.places
            found = rule(self._head.spread(guesses.logits), target[at], said[at], self._drawing)
            taken[at, depth], agrees[at, depth], is_proposed[at, depth] = found[0], found[2], True
            if found[1] is not None:
                expected[at, depth] = found[1]
        return Chances(taken, None if self._drawing.is_single else expected, agrees, is_proposed)
