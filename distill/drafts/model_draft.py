"""A whole model as the draft: a student, an early exit, a pruned model; and the rule of acceptance, on logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from distill.calibration import CalibrationText
from distill.drafts.acceptance import Chances
from distill.drafts.rows import CausalRows
from train.model.llama import Llama


@dataclass(frozen=True, slots=True)
class Drawing:
    """How target and draft choose tokens."""

    temperature: float
    """Of the target, at which texts were drawn, and of a draft that draws."""
    is_greedy_draft: bool = False
    """The draft proposes its likeliest token, whatever the temperature, as engines do that keep no probabilities of
    drafts; at temperature 0 it does so anyway."""

    @property
    def is_single(self) -> bool:
        """Whether a draft's token is certain."""
        return self.is_greedy_draft or self.temperature == 0


def answer_logits(model: Llama, text: CalibrationText) -> Tensor:
    """(T, V): what the model says where each token of `text.drafted` comes."""
    token_ids = torch.tensor((*text.prompt, *text.answer[:-1]), device=model.lm_head.weight.device)
    hidden = model(token_ids, torch.arange(len(token_ids), device=token_ids.device), CausalRows(1))
    return model.logits(hidden[len(text.prompt) :])


def rule(
    draft: Tensor, target: Tensor, token_ids: Tensor, drawing: Drawing
) -> tuple[Tensor, Tensor | None, Tensor]:
    """What becomes of drafts at some places.

    Args:
        draft: (rows, V) logits; −∞ where the draft has no such token.
        target: (rows, V) logits.
        token_ids: (rows,), what the target said.
        drawing: how.

    Returns:
        Chance that the token was a taken draft, (rows,); Σ min(p, q), (rows,), None where drafts are single tokens; and
        whether both have one likeliest token, (rows,).
    """
    likeliest = draft.argmax(-1)
    agrees = likeliest == target.argmax(-1)
    if drawing.is_single:
        return (likeliest == token_ids).to(target.dtype), None, agrees
    q, p = ((logits / drawing.temperature).softmax(-1) for logits in (draft, target))
    of_draft, of_target = (likely.gather(-1, token_ids[:, None])[:, 0] for likely in (q, p))
    return (of_draft / of_target).clamp(max=1), torch.minimum(p, q).sum(-1), agrees


class ModelDraft:
    """A `Draft` that reads all that was said, so that its guess does not depend on where a round began.

    Args:
        model: over the target's vocabulary (`teacher.require_same_tokens`).
        target: whose texts they are.
        drawing: how both choose.
    """

    def __init__(self, model: Llama, target: Llama, drawing: Drawing) -> None:
        self._model = model
        self._target = target
        self._drawing = drawing

    @torch.no_grad()
    def chances(self, text: CalibrationText, num_drafts: int) -> Chances:
        """As `Draft`."""
        logits = [answer_logits(model, text) for model in (self._model, self._target)]
        said = torch.tensor(text.drafted, device=logits[0].device)
        taken, expected, agrees = (
            None if each is None else each[:, None].expand(-1, num_drafts)
            for each in rule(*logits, said, self._drawing)
        )
        assert taken is not None
        assert agrees is not None
        return Chances(taken, expected, agrees, torch.ones_like(agrees))
