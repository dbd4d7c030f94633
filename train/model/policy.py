"""A Llama as the learner sees it: the weights that move, and what it says of the tokens behind the prompts.

Layers below the lowest that moves run without gradient. A reference is the moving weights as they once were: it shares
all others with the policy, and starts from the states that `score` has just computed below them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from train.batch import Group
from train.learner import Scored
from train.model.head import predict
from train.model.llama import Llama
from train.model.rope import RopeScaling
from train.model.trainable import first_trained_layer, moving
from train.model.tree import grow
from train.model.tree_attention import TreeAttention
from train.sharding import put, whole


class LlamaPolicy:
    """A model whose moving weights are marked already (`trainable`, `lora.add_lora`); a `learner.TrainedModel`.

    Args:
        model: held, not copied.
        temperature: at which log-probabilities are taken, the sampler's; a group may name another that it was drawn at.
    """

    def __init__(self, model: Llama, *, temperature: float = 1.0) -> None:
        self.model = model
        self.scorer = Scorer(model, temperature)
        self._call: nn.Module = self.scorer
        self._learning = self.scorer
        self._reference: dict[str, Tensor] | None = None
        self._last: Line | None = None

    def trained(self) -> Mapping[str, Parameter]:
        """The weights that move, by name."""
        return moving(self._learning.model)

    def score(self, groups: Sequence[Group]) -> Scored:
        """Every token behind the prompts, groups and rollouts end to end, with gradient."""
        self._last = self._line(groups)
        return Scored(*self._call(self._last))

    def rotate_by(self, scaling: RopeScaling | None, max_positions: int) -> None:
        """From now on positions are scaled so, and so many are taken; a sampler reads it at its next update."""
        for model in (self.model, self._learning.model):
            model.shape = replace(model.shape, rope_scaling=scaling, max_positions=max_positions)
        self._last = None

    @property
    def rope_scaling(self) -> RopeScaling | None:
        """How positions are scaled."""
        return self.model.shape.rope_scaling

    @property
    def max_positions(self) -> int:
        """That are taken."""
        return self.model.shape.max_positions

    def call_through(self, wrapped: nn.Module, learning: Scorer | None = None) -> None:
        """From now on score through this wrapping of a scorer (`train.scale_out`).

        Args:
            wrapped: of `scorer`, or of `learning`.
            learning: a `twin`: its weights are those that move from now on, and the model's follow by `refresh`.
        """
        self._call = wrapped
        self._learning = learning or self.scorer

    def twin(self) -> Scorer:
        """A scorer whose moving weights are its own; it shares those that stay."""
        staying = {id(weight): weight for weight in self.model.parameters() if not weight.requires_grad}
        return copy.deepcopy(self.scorer, staying)

    def refresh(self) -> None:
        """Let the model have the weights that learn, where these are another's; all processes do it at once."""
        if self._learning is not self.scorer:
            own = moving(self.model)
            for name, weight in self.trained().items():
                put(whole(weight), own[name])

    @property
    def hidden_size(self) -> int:
        """E."""
        return self.model.shape.hidden_size

    @torch.no_grad()
    def hidden(self, groups: Sequence[Group]) -> Tensor:
        """(tokens, E): the normed last states that each token behind the prompts is predicted from; no gradient."""
        line = self._line(groups)
        return self.scorer.hidden(line).index_select(0, line.rows)

    def keep_reference(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Let `reference` answer by these moving weights, named as in `trained`; where None, by those of now."""
        kept = moving(self.model) if weights is None else weights
        self._reference = {name: weight.detach().clone() for name, weight in kept.items()}

    def reference_weights(self) -> Mapping[str, Tensor]:
        """What `keep_reference` kept, for a checkpoint; empty where it was never called."""
        return self._reference or {}

    @torch.no_grad()
    def reference(self, groups: Sequence[Group]) -> Tensor:
        """(tokens,): log-probabilities of the same tokens by the reference.

        Raises:
            RuntimeError: none is kept.
        """
        if self._reference is None:
            raise RuntimeError("no reference is kept; call keep_reference first")
        line = (
            self._last
            if self._last is not None and self._last.groups == tuple(groups)
            else self._line(groups)
        )
        weights = {f"model.{name}": weight for name, weight in self._reference.items()}
        logprobs: Tensor = torch.func.functional_call(self.scorer, weights, (line,))[0]
        return logprobs

    def _line(self, groups: Sequence[Group]) -> Line:
        line = Line(tuple(groups), self.model.lm_head.weight, temperature=self.scorer.temperature)
        if self.scorer.first_trained:
            with torch.no_grad():
                states = self.model.model.embed_tokens(line.token_ids)
                layers = range(self.scorer.first_trained)
                line.frozen = self.model.through(states, line.positions, line.attend, layers)
        return line


class Line:
    """Groups laid as a tree: what prompts and answers share with one another is computed once.

    A continuation's last token is left out: nothing is asked of what it would predict.
    """

    def __init__(self, groups: tuple[Group, ...], like: Tensor, *, temperature: float = 1.0) -> None:
        answers = [(group, credit.token_ids) for group in groups for credit in group.credits]
        tree = grow([group.prompt + answer[:-1] for group, answer in answers])
        rows: dict[tuple[int, float], int] = {}
        of_tokens: list[int] = []
        for (group, answer), path in zip(answers, tree.paths, strict=True):
            first = len(group.prompt) - 1  # the prompt's last token predicts the answer's first
            for place in path[first : first + len(answer)]:
                of_tokens.append(rows.setdefault((place, group.temperature or temperature), len(rows)))
        targets = chain.from_iterable(answer for _, answer in answers)

        def integers(numbers: Iterable[int]) -> Tensor:
            return torch.tensor(list(numbers), dtype=torch.long, device=like.device)

        self.groups = groups
        self.token_ids = integers(tree.token_ids)
        self.positions = integers(tree.positions)
        self.attend = TreeAttention(tree, like.dtype, like.device)
        self.predictors = integers(place for place, _ in rows)
        """(rows,): the tokens whose states predict something, each once for every temperature."""
        self.temperatures = torch.tensor([each for _, each in rows], dtype=like.dtype, device=like.device)
        """(rows,)."""
        self.rows = integers(of_tokens)
        """(tokens,): which row predicts each token behind the prompts."""
        self.targets = integers(targets)
        """(tokens,): those tokens."""
        self.frozen: Tensor | None = None
        """(N, E): the states above the layers that do not move; None where all do."""


class Scorer(nn.Module):
    """The part of a step that has a gradient; a module, so that it can be wrapped for several processes."""

    def __init__(self, model: Llama, temperature: float) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.first_trained = first_trained_layer(model)

    def forward(self, line: Line) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the targets and entropies, both (tokens,)."""
        logprobs, entropies = predict(
            self.hidden(line), self.model.lm_head.weight, line.rows, line.targets, line.temperatures
        )
        return logprobs, entropies.index_select(0, line.rows)

    def hidden(self, line: Line) -> Tensor:
        """(rows, E), normed: what predicts."""
        states = self.model.model.embed_tokens(line.token_ids) if line.frozen is None else line.frozen
        layers = range(self.first_trained, self.model.shape.num_layers)
        states = self.model.through(states, line.positions, line.attend, layers, line.predictors)
        normed: Tensor = self.model.model.norm(states)
        return normed
