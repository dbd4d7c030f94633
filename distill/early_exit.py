"""Early exits: a trunk that can be left behind some of its layers, and the joint loss that lets each exit stand alone.

The trunk is a copy of a model's first layers; the model itself, which teaches, stays as it was. An exit behind layer k
is a last norm of its own and the model's output matrix on layer k's states. The joint loss is the weighted mean of the
exits' divergences from the model (LayerSkip, arXiv:2404.16710, section 4.1.2, sums cross-entropies so). One pass
through the trunk serves all exits, and what is exported for one, its layers and its norm, says to the letter what the
exit says: an ordinary checkpoint, which engines serve as it is.

A norm of its own costs an exit one weight a channel. One norm for all would have to suit states whose size grows with
the layers: at 10 and at 20 of SmolLM2's it is not the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from distill.divergence import diverge
from distill.exit_recipe import Weighting
from distill.pruning.pruned import with_layers
from distill.recipe import PhaseSettings
from distill.student_loss import MEASURES, Counts, Seen, by_origin
from distill.teacher import Teacher
from train.batch import Group
from train.model.llama import Llama, RMSNorm
from train.model.policy import Line
from train.model.precision import held_in
from train.model.trainable import train_top_layers
from train.run_directory import RunError


class Exiting(nn.Module):
    """A copy of a model's first layers with its exits; layers and norms move, the embedding stays the model's.

    Args:
        model: adapters merged; copied.
        exits: behind how many layers, rising.

    Raises:
        RunError: the model has no such depth, or an exit would be the whole of it.
    """

    def __init__(self, model: Llama, exits: Sequence[int]) -> None:
        super().__init__()
        num_layers = model.shape.num_layers
        if bad := [depth for depth in exits if not 0 < depth < num_layers]:
            raise RunError(
                f"no exit behind layer {bad[0]}: the model has {num_layers}; name 1 to {num_layers - 1} as `exits`"
            )
        self.exits = tuple(exits)
        self.trunk = with_layers(model, range(exits[-1]))
        train_top_layers(self.trunk, exits[-1])
        norm = self.trunk.model.norm
        self.norms = nn.ModuleDict({str(depth): _like(norm) for depth in exits[:-1]})
        self.norms[str(exits[-1])] = norm

    def states(self, line: Line) -> dict[int, Tensor]:
        """Depth → normed states (rows, E) of the line's predictors, by one pass through the layers."""
        trunk = self.trunk
        states = trunk.model.embed_tokens(line.token_ids)
        found: dict[int, Tensor] = {}
        for start, depth in pairwise((0, *self.exits)):
            layers, is_last = range(start, depth), depth == self.exits[-1]
            wanted = line.predictors if is_last else None
            states = trunk.through(states, line.positions, line.attend, layers, wanted)
            leaving = states if is_last else states.index_select(0, line.predictors)
            found[depth] = self.norms[str(depth)](leaving)
        return found

    @torch.no_grad()
    def standing_alone(self, depth: int) -> Llama:
        """One exit as a model that shares no weights with the others."""
        alone = with_layers(self.trunk, range(depth))
        alone.model.norm.weight.copy_(self.norms[str(depth)].weight)
        return alone


class ExitLoss:
    """The joint loss; a `student_learner.Loss`.

    Args:
        exiting: learns.
        teacher: of the same tokens.
        settings: say the divergence.
        weighting: of the exits.
    """

    def __init__(
        self, exiting: Exiting, teacher: Teacher, settings: PhaseSettings, weighting: Weighting
    ) -> None:
        self._exiting = exiting
        self._teacher = teacher
        self._measure = MEASURES[settings.divergence](settings.beta)
        self._shares = weighting.shares(exiting.exits)

    def of_line(self, groups: tuple[Group, ...], counts: Counts, seen: Seen) -> Tensor:
        """Σ over exits of share · Σ over tokens of the divergence, by the step's number of tokens.

        Args:
            groups: by origin (`student_loss.Origin`).
            counts: of the whole step.
            seen: is told each exit's nats, and each origin's of the joint loss.
        """
        trunk = self._exiting.trunk
        line = Line(groups, trunk.lm_head.weight)
        seen.num_computed += len(line.token_ids)
        scores, _ = self._teacher.read(line, ())
        output = held_in(trunk.precision, trunk.lm_head.weight)
        joint = trunk.lm_head.weight.new_zeros(())
        for depth, hidden in self._exiting.states(line).items():
            nats = diverge(hidden, output, scores, self._measure).index_select(0, line.rows)
            seen.add(exit_name(depth), nats.sum())
            joint = joint + self._shares[depth] * nats
        for origin, here in by_origin(groups, joint.device).items():
            seen.add(origin, joint[here].sum())
        return joint.sum() / counts.num_tokens


def exit_name(depth: int) -> str:
    """In metrics, and as the moment of its evaluation."""
    return f"exit_{depth}"


def _like(norm: RMSNorm) -> RMSNorm:
    """A norm of the same weights that shares none."""
    made = RMSNorm(len(norm.weight), norm.eps)
    made.load_state_dict(norm.state_dict())
    return made
