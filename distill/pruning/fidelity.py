"""How much a model says still what the whole model says, when some of its layers or channels are left out.

Sequences are laid as a tree (`train.model.tree`), so that what prompts have in common is computed once. At each token
of the answers the distribution p of the whole model is compared with q of what is left of it:

- divergence KL(p ‖ q) = Σ p (ln p − ln q), in nats;
- acceptance Σ min(p, q): the chance that speculative decoding takes a token drawn from q (arXiv:2211.17192, 3.2);
- greedy share: how often both have the same most likely token.

A layer's states depend only on the layers below it that are kept. `Fidelity.hold` computes and keeps the states along
some sets of layers; whatever begins as one of these goes on from there, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from distill.calibration import CalibrationText
from train.model.head import ROWS
from train.model.llama import Llama
from train.model.tree import grow
from train.model.tree_attention import TreeAttention

MAX_KEPT_BYTES = 512 << 20
"""Of the whole model's log-probabilities; where they are more, they are computed again from its states."""

Layers = tuple[int, ...]
"""Indices of the whole model's layers, rising."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over the tokens of the answers."""

    divergence: float
    """Nats, 0 at best."""
    acceptance: float
    """In [0, 1], 1 at best."""
    greedy_share: float
    """In [0, 1], 1 at best."""


class Fidelity:
    """Measures what is left of a model against the whole of it.

    Args:
        model: the whole; read, never changed.
        texts: at least one.
    """

    @torch.no_grad()
    def __init__(self, model: Llama, texts: Sequence[CalibrationText]) -> None:
        if not texts or not all(text.prompt and text.answer for text in texts):
            raise ValueError("texts to measure on need a prompt and an answer each, and there must be one")
        self.model = model
        self.texts = texts
        weight = model.lm_head.weight
        tree = grow([text.token_ids[:-1] for text in texts])
        places = sorted(
            {
                place
                for text, path in zip(texts, tree.paths, strict=True)
                for place in path[len(text.prompt) - 1 :]
            }
        )
        self._positions = torch.tensor(tree.positions, device=weight.device)
        self._attend = TreeAttention(tree, weight.dtype, weight.device)
        self._wanted = torch.tensor(places, device=weight.device)
        self._token_ids = torch.tensor(tree.token_ids, device=weight.device)
        self._embedded = model.model.embed_tokens(self._token_ids)
        self._held: dict[Layers, Tensor] = {}
        self._whole = self._hidden(tuple(range(model.shape.num_layers)))
        is_kept = len(places) * len(weight) * weight.element_size() <= MAX_KEPT_BYTES
        self._told = [_logprobs(model, part) for part in self._whole.split(ROWS)] if is_kept else None

    @property
    def num_tokens(self) -> int:
        """That are measured at; what answers to one prompt begin with alike counts once."""
        return len(self._wanted)

    @property
    def num_computed(self) -> int:
        """Tokens of a forward pass."""
        return len(self._positions)

    @torch.no_grad()
    def hold(self, sets: Iterable[Layers]) -> None:
        """Keep the states along these sets of layers, and no others: (tokens, E) for each distinct beginning."""
        before, self._held = self._held, {}
        for kept in sets:
            for end in range(1, len(kept)):
                if kept[:end] not in self._held:
                    found = before.get(kept[:end])
                    self._held[kept[:end]] = self._states(kept[:end]) if found is None else found

    @torch.no_grad()
    def score(self, kept: Layers) -> Scores:
        """What the model says with these layers alone, norm and output matrix being its own."""
        return self._compared(self._hidden(kept), self.model)

    @torch.no_grad()
    def score_of(self, left: Llama) -> Scores:
        """What a model says that was made of the whole one, of the same vocabulary."""
        states = left.model.embed_tokens(self._token_ids)
        layers = range(left.shape.num_layers)
        states = left.through(states, self._positions, self._attend, layers, self._wanted)
        return self._compared(left.model.norm(states), left)

    def _compared(self, hidden: Tensor, left_model: Llama) -> Scores:
        """Of normed states at the tokens measured at, (tokens, E), through this model's output matrix."""
        sums = torch.zeros(3, dtype=torch.float64)
        for index, part in enumerate(hidden.split(ROWS)):
            left = _logprobs(left_model, part)
            start = index * ROWS
            whole = (
                self._told[index] if self._told else _logprobs(self.model, self._whole[start : start + ROWS])
            )
            likely = whole.exp()
            sums += torch.stack(
                (
                    torch.linalg.vecdot(likely, whole - left).sum(),
                    torch.minimum(likely, left.exp()).sum(),
                    (whole.argmax(-1) == left.argmax(-1)).sum(),
                )
            ).to(sums)
        divergence, acceptance, greedy_share = (sums / self.num_tokens).tolist()
        return Scores(divergence, acceptance, greedy_share)

    def _hidden(self, kept: Layers) -> Tensor:
        """(tokens measured at, E), normed."""
        hidden: Tensor = self.model.model.norm(self._states(kept, self._wanted))
        return hidden

    def _states(self, kept: Layers, wanted: Tensor | None = None) -> Tensor:
        """(tokens, E) above the last of these layers, from the longest beginning that is held."""
        start = max((end for end in range(1, len(kept)) if kept[:end] in self._held), default=0)
        states = self._held[kept[:start]] if start else self._embedded
        for layer in kept[start:-1]:
            states = self._through(layer, states)
        if kept:
            return self._through(kept[-1], states, wanted)
        return states if wanted is None else states.index_select(0, wanted)

    def _through(self, layer: int, states: Tensor, wanted: Tensor | None = None) -> Tensor:
        return self.model.through(states, self._positions, self._attend, range(layer, layer + 1), wanted)


def _logprobs(model: Llama, hidden: Tensor) -> Tensor:
    return model.logits(hidden).float().log_softmax(-1)
