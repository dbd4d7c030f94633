"""A critic: what a rollout may still be worth at each of its tokens, in place of the mean of its group.

For domains whose rollouts are long: one verdict at the end of many turns says nothing of which turn was good, and a
group's mean gives all of them the same advantage. The critic is a small head on the policy's last hidden states, and
never moves the policy itself. The story of a step is `Critic.step`: values before anything is learned, advantages from
them, then some updates of the head on the same states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from train.advantages import DomainScale, Floats
from train.appraisal import by_rollout, is_appraised, marked, with_advantages
from train.batch import Group, micro_batches
from train.gae import gae
from train.learner import TrainedModel
from train.recipe import CriticSettings
from train.value_head import ReturnScale, ValueHead, value_loss

MAX_GRAD_NORM: Final = 1.0


class HiddenModel(TrainedModel, Protocol):
    """A policy whose states can be seen."""

    @property
    def hidden_size(self) -> int:
        """E."""
        ...

    def hidden(self, groups: Sequence[Group]) -> Tensor:
        """(tokens, E): the last states that each token behind the prompts is predicted from; no gradient."""
        ...


@dataclass(frozen=True, slots=True)
class Appraised:
    """A step's groups as the critic sees them."""

    groups: tuple[Group, ...]
    """With its advantages; those of the group's mean are gone."""
    is_warming_up: bool
    """Whether the critic still learns alone, and these are not to be learned from."""
    metrics: Mapping[str, Any]


class Critic:
    """Holds the head, its optimiser and the scale of returns.

    Args:
        model: whose states it looks at.
        settings: how.
        micro_batch_tokens: computed at once.
        seed: of the head's first weights.
    """

    def __init__(
        self, model: HiddenModel, settings: CriticSettings, *, micro_batch_tokens: int, seed: int
    ) -> None:
        self._model = model
        self._settings = settings
        self._micro_batch_tokens = micro_batch_tokens
        self.head = ValueHead(model.hidden_size, settings.width, seed=seed)
        self.head.to(next(iter(model.trained().values())).device)
        self.optimizer = torch.optim.AdamW(
            self.head.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.scale = ReturnScale()
        self.num_steps_done = 0

    def step(self, groups: Sequence[Group], scale: DomainScale | None) -> Appraised:
        """Appraise, then learn from what came of it.

        Args:
            groups: with rewards; a rollout without one stays as it is.
            scale: of domains' advantages, which takes them in; not those of a critic that learns alone.
        """
        is_warming_up = self.num_steps_done < self._settings.num_warmup_steps
        self.num_steps_done += 1
        credits = [credit for group in groups for credit in group.credits if is_appraised(credit)]
        if not credits:
            return Appraised(tuple(groups), is_warming_up, {})
        hidden = self._hidden(groups)
        values = by_rollout(self.values(hidden), credits)
        rewards = [credit.reward for credit in credits if credit.reward is not None]
        advantages = self._gae(values, rewards, self._settings.gae_trace)
        ahead = self._gae(values, rewards, self._settings.return_trace)
        foretold = np.concatenate(values)
        returns = foretold + np.concatenate(ahead)
        metrics = {**_judged(foretold, returns), **self._learn(hidden, returns)}
        metrics["is_critic_alone"] = is_warming_up
        credited = with_advantages(groups, advantages, None if is_warming_up else scale)
        return Appraised(credited, is_warming_up, metrics)

    @torch.no_grad()
    def values(self, hidden: Tensor) -> Floats:
        """(tokens,), in score, of the states (tokens, E)."""
        said = torch.cat([self.head(part) for part in hidden.split(self._micro_batch_tokens)])
        values: Floats = self.scale.from_units(said.double()).cpu().numpy()
        return values

    def plain(self) -> dict[str, Any]:
        """For a checkpoint, beside `head` and `optimizer`, which are tensors."""
        return {"scale": self.scale.plain(), "num_steps_done": self.num_steps_done}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.scale.restore(plain["scale"])
        self.num_steps_done = plain["num_steps_done"]

    def _hidden(self, groups: Sequence[Group]) -> Tensor:
        """(tokens, E): at the sampled tokens of all rollouts with a reward, end to end."""
        parts = []
        for batch in micro_batches(marked(groups), max_tokens=self._micro_batch_tokens):
            states = self._model.hidden(batch)
            is_sampled = [each for group in batch for credit in group.credits for each in credit.is_sampled]
            parts.append(states[torch.tensor(is_sampled, device=states.device)])
        return torch.cat(parts)

    def _gae(self, values: Sequence[Floats], rewards: Sequence[float], trace: float) -> list[Floats]:
        discount = self._settings.discount
        return [
            gae(of_rollout, reward, discount=discount, trace=trace)
            for of_rollout, reward in zip(values, rewards, strict=True)
        ]

    def _learn(self, hidden: Tensor, returns: Floats) -> dict[str, Any]:
        """Some updates on the same states; none where something is not finite."""
        if not np.isfinite(returns).all():
            return {"is_critic_applied": False}
        told = torch.from_numpy(returns).to(hidden.device)
        self.head.observe(self.scale, told)
        targets = self.scale.to_units(told).to(self.head.last.weight.dtype)
        with torch.no_grad():
            anchors = torch.cat([self.head(part) for part in hidden.split(self._micro_batch_tokens)])
        updates = []
        for _ in range(self._settings.num_updates):
            updates.append(self._update(hidden, anchors, targets))
            if not updates[-1].is_applied:
                break
        return {
            "value_loss": updates[0].loss,
            "value_grad_norm": updates[0].grad_norm,
            "value_clipped_share": updates[-1].clipped_share,
            "return_deviation": self.scale.deviation,
            "is_critic_applied": updates[-1].is_applied,
        }

    def _update(self, hidden: Tensor, anchors: Tensor, targets: Tensor) -> _Update:
        size, num = self._micro_batch_tokens, len(targets)
        loss, num_clipped = 0.0, 0
        self.optimizer.zero_grad(set_to_none=True)
        for states, before, wanted in zip(
            hidden.split(size), anchors.split(size), targets.split(size), strict=True
        ):
            found = value_loss(self.head(states), before, wanted, self._settings.value_clip, num)
            torch.autograd.backward(found.loss)
            loss += float(found.loss.detach())
            num_clipped += found.num_clipped
        norm = float(torch.nn.utils.clip_grad_norm_(self.head.parameters(), MAX_GRAD_NORM))
        is_applied = math.isfinite(loss) and math.isfinite(norm)
        if is_applied:
            self.optimizer.step()
        return _Update(loss, norm, num_clipped / num, is_applied)


@dataclass(frozen=True, slots=True)
class _Update:
    loss: float
    grad_norm: float
    clipped_share: float
    is_applied: bool


def _judged(values: Floats, returns: Floats) -> dict[str, Any]:
    """How well the values, as they were before they learned from it, foretold what came."""
    variance = float(returns.var())
    metrics = {"mean_value": float(values.mean()), "mean_return": float(returns.mean())}
    if variance:
        metrics["explained_variance"] = 1 - float((returns - values).var()) / variance
    return metrics
