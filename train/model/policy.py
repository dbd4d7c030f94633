"""A Llama as the learner sees it: the weights that move, and what it says of the tokens behind the prompts.

Layers below the lowest that moves run without gradient. A reference is the moving weights as they once were: it shares
all others with the policy, and starts from the states that `score` has just computed below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.utils.checkpoint import checkpoint

from train.batch import Group
from train.learner import Scored
from train.model.groups import GroupAttention, lay_out, positions_of, predictors_of
from train.model.llama import Llama
from train.model.trainable import first_trained_layer

HEAD_TOKENS = 256
"""Tokens whose logits are in memory at once: 49,152 logits each are 200 kB in single precision."""


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
        self._reference: dict[str, Tensor] | None = None
        self._last: Line | None = None

    def trained(self) -> Mapping[str, Parameter]:
        """The weights that move, by name."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def score(self, groups: Sequence[Group]) -> Scored:
        """Every token behind the prompts, groups and rollouts end to end, with gradient."""
        self._last = self._line(groups)
        return Scored(*self._call(self._last))

    def call_through(self, wrapped: nn.Module) -> None:
        """From now on score through this wrapping of `scorer` (`train.scale_out`)."""
        self._call = wrapped

    def keep_reference(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Let `reference` answer by these moving weights, named as in `trained`; where None, by those of now."""
        kept = self.trained() if weights is None else weights
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
        line = Line(tuple(groups), self.model.lm_head.weight.device, temperature=self.scorer.temperature)
        if self.scorer.first_trained:
            with torch.no_grad():
                states = self.model.model.embed_tokens(line.token_ids)
                layers = range(self.scorer.first_trained)
                line.frozen = self.model.through(states, line.positions, line.attend, layers)
        return line


class Line:
    """Groups laid end to end.

    A continuation's last token is left out: nothing is asked of what it would predict.
    """

    def __init__(
        self, groups: tuple[Group, ...], device: torch.device | str = "cpu", *, temperature: float = 1.0
    ) -> None:
        answers = [[credit.token_ids for credit in group.credits] for group in groups]
        lengths = [[len(answer) for answer in row] for row in answers]
        layouts = lay_out(
            [len(group.prompt) for group in groups], [[max(0, n - 1) for n in row] for row in lengths]
        )
        tokens = (
            part
            for group, row in zip(groups, answers, strict=True)
            for part in (group.prompt, *(a[:-1] for a in row))
        )
        self.groups = groups
        self.token_ids = torch.tensor(list(chain.from_iterable(tokens)), dtype=torch.long, device=device)
        self.positions = positions_of(layouts).to(device)
        self.attend = GroupAttention(layouts, device)
        self.predictors = predictors_of(layouts, lengths).to(device)
        targets = chain.from_iterable(answer for row in answers for answer in row)
        self.targets = torch.tensor(list(targets), dtype=torch.long, device=device)
        temperatures = [group.temperature or temperature for group in groups]
        nums = torch.tensor([sum(row) for row in lengths])
        self.temperatures = torch.tensor(temperatures, dtype=torch.float64).repeat_interleave(nums).to(device)
        """(tokens,): at which each target was drawn."""
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
        states = self.model.model.embed_tokens(line.token_ids) if line.frozen is None else line.frozen
        layers = range(self.first_trained, self.model.shape.num_layers)
        states = self.model.through(states, line.positions, line.attend, layers)
        hidden = self.model.model.norm(states[line.predictors])
        parts = [
            checkpoint(self._predict, *some, use_reentrant=False)
            for some in zip(
                hidden.split(HEAD_TOKENS),
                line.targets.split(HEAD_TOKENS),
                line.temperatures.to(hidden.dtype).split(HEAD_TOKENS),
                strict=True,
            )
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _predict(self, hidden: Tensor, targets: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = (self.model.logits(hidden) / temperatures[:, None]).log_softmax(-1)
        entropies = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropies
