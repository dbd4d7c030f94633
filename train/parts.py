"""What a run is made of, as protocols: the model that learns, the sampler that is told of its weights, the judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from train.batch import Group
from train.codec import Codec
from train.critic import Critic, HiddenModel
from train.domains.base import Domain
from train.learner import Learner, TrainedModel
from train.model.rope import RopeScaling
from train.rollouts.rollout import Sampler
from train.verifiers.pool import Judge


class ReferencedModel(TrainedModel, Protocol):
    """A trained model that can hold a copy of itself to be kept near to."""

    def keep_reference(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """From now on `reference` answers by these weights, named as in `trained`; where None, by those of now."""
        ...

    def reference(self, groups: Sequence[Group]) -> Tensor:
        """(tokens,): log-probs by the weights that were kept."""
        ...

    def refresh(self) -> None:
        """Let whatever follows the weights of `trained` have them as they are now; all processes do it at once."""
        ...

    def reference_weights(self) -> Mapping[str, Tensor]:
        """The weights that were kept; empty where none were."""
        ...


class RotatedModel(Protocol):
    """A model whose rotary positions can be scaled (`train.context`)."""

    @property
    def rope_scaling(self) -> RopeScaling | None:
        """How positions are scaled."""
        ...

    @property
    def max_positions(self) -> int:
        """That are taken."""
        ...

    def rotate_by(self, scaling: RopeScaling | None, max_positions: int) -> None:
        """From now on positions are scaled so, and so many are taken."""
        ...


class LearningModel(ReferencedModel, HiddenModel, RotatedModel, Protocol):
    """All that a run asks of a policy."""


class UpdatedSampler(Sampler, Protocol):
    """A sampler that can be told of new weights."""

    def update(self, policy_version: int) -> None:
        """Sample from the weights as they are now, under this version."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of."""

    model: LearningModel
    sampler: UpdatedSampler
    codec: Codec
    domains: Mapping[str, Domain]
    """Audited."""
    pool: Judge
    make_learner: Callable[..., Learner] = Learner
    make_critic: Callable[..., Critic] = Critic
    make_evaluator: Callable[[], Sampler] | None = None
    """Makes a sampler for an evaluation, of the weights as they are then, and it is dropped behind it, so that nothing
    stands twice in memory while the run learns; None: `sampler` is what evaluations draw from."""

    def evaluator(self, policy_version: int) -> Sampler:
        """What evaluations draw from, of the weights as they are, which have this version."""
        if self.make_evaluator is not None:
            return self.make_evaluator()
        self.sampler.update(policy_version)
        return self.sampler
