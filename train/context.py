"""Longer contexts by stages: from a step on, positions are scaled by so much and the levels that fit are learned.

A model that was first trained on short texts is taken further in steps, each a little longer than the one before
(staged lengths: arXiv:2402.10171, arXiv:2407.21783 section 3.4.2), with its rotary positions scaled for each
(`train.model.rope`). The last stage's scaling is what reinforcement, evaluation and the exported model have.

Which stage is in force is a function of the step alone, so that a run that was stopped goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, model_validator

from serving.engines.base import SettingsNode
from train.model.rope import Kind, RopeScaling
from train.seeds import seed_of
from train.transcript import Message

if TYPE_CHECKING:
    from train.codec import Codec
    from train.domains.base import Domain

PROBES: Final = 3
"""Items of a level whose length is looked at."""


class ContextError(ValueError):
    """Stages and domains do not go together; the message names the remedy."""


class StageSettings(SettingsNode):
    """One length."""

    from_step: int = Field(0, ge=0)
    """Of learning by heart: the first step of the stage."""
    max_tokens: int = Field(ge=16)
    """Of prompt and answer: the levels that are no longer are in play."""
    factor: float = Field(1.0, ge=1)
    """By which positions are scaled; 1: as the base has them."""


class ContextSettings(SettingsNode):
    """Stages of growing length."""

    scaling: Kind = "yarn"
    original_tokens: int | None = Field(None, gt=0)
    """Of the base's first training; absent: what the base says."""
    stages: tuple[StageSettings, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _stages_grow(self) -> Self:
        firsts = [stage.from_step for stage in self.stages]
        if firsts[0] != 0 or any(one >= other for one, other in pairwise(firsts)):
            raise ValueError(
                f"stages begin at steps {firsts}; let the first begin at 0 and each later than the one before"
            )
        lengths = [stage.max_tokens for stage in self.stages]
        if lengths != sorted(lengths):
            raise ValueError(f"stages have lengths {lengths}; let them grow")
        return self

    @property
    def max_tokens(self) -> int:
        """Of the longest stage."""
        return self.stages[-1].max_tokens

    def stage_at(self, step: int | Literal["last"]) -> StageSettings:
        """What is in force at a step of learning by heart."""
        return self.stages[-1] if step == "last" else [s for s in self.stages if s.from_step <= step][-1]

    def scaling_at(
        self, step: int | Literal["last"], base: RopeScaling | None, base_tokens: int
    ) -> RopeScaling | None:
        """How positions are scaled then.

        Args:
            step: of learning by heart.
            base: the base's own scaling.
            base_tokens: that the base was made for.
        """
        factor = self.stage_at(step).factor
        if factor == 1:
            return base
        original = None if self.scaling == "linear" else self.original_tokens or base_tokens
        return RopeScaling(kind=self.scaling, factor=factor, original_max_positions=original)


def fitting(
    settings: ContextSettings,
    levels: Mapping[str, Sequence[int]],
    domains: Mapping[str, Domain],
    codec: Codec,
) -> list[dict[str, tuple[int, ...]]]:
    """For each stage, the levels of each domain that it has room for.

    Raises:
        ContextError: a domain has none in some stage, or a level is too long for the last.
    """
    lengths = {
        name: {level: _length(domains[name], level, codec) for level in of_domain}
        for name, of_domain in levels.items()
    }
    found = [
        {
            name: tuple(level for level, length in of_domain.items() if length <= stage.max_tokens)
            for name, of_domain in lengths.items()
        }
        for stage in settings.stages
    ]
    for stage, of_stage in zip(settings.stages, found, strict=True):
        if empty := [name for name, of_domain in of_stage.items() if not of_domain]:
            shortest = max(min(lengths[name].values()) for name in empty)
            raise ContextError(
                f"no level of {', '.join(empty)} fits a stage of {stage.max_tokens} tokens; let it have {shortest}, or "
                "give the domain a shorter level"
            )
    if long := [name for name, of_domain in found[-1].items() if len(of_domain) < len(levels[name])]:
        most = max(max(lengths[name].values()) for name in long)
        raise ContextError(
            f"levels of {', '.join(long)} take {most} tokens and the last stage has {settings.max_tokens}; leave "
            "them out, or let it be longer"
        )
    return found


def _length(domain: Domain, level: int, codec: Codec) -> int:
    """Tokens of prompt and reference answer, of the longest of some items."""
    items = [domain.item(seed_of(0, "length", domain.name), index, level) for index in range(PROBES)]
    return max(
        len(codec.prompt([Message("user", item.prompt)])) + len(codec.answer(domain.reference(item).answer))
        for item in items
    )
