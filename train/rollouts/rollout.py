"""Token truth: what was sampled, by which policy, at which probability. Nothing is ever tokenised again.

A rollout is a line of spans. A span is either given (the prompt, a tool's result) or sampled; only a sampled one has
log-probabilities, and every token of it has one. Rollouts of one group share their first span, the prompt: the same
object, computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class StopReason(StrEnum):
    """Why sampling ended."""

    END = "end"
    """The policy said so: its end token is the last one sampled."""
    LENGTH = "length"
    DEADLINE = "deadline"
    """Time ran out; what there is may be trained on by nothing but its length."""


class MissingLogprobsError(ValueError):
    """A sampler gave tokens without log-probabilities. They are never taken for 0, which would mean certainty."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one origin."""

    token_ids: tuple[int, ...]
    behavior_logprobs: tuple[float, ...] | None = None
    """ln of the probability at which each token was drawn, temperature included; None for a given span."""
    policy_version: int | None = None
    """Of a sampled span: the weights that sampled it."""

    def __post_init__(self) -> None:
        if self.behavior_logprobs is not None and len(self.behavior_logprobs) != len(self.token_ids):
            raise MissingLogprobsError(
                f"{len(self.token_ids)} tokens were sampled and {len(self.behavior_logprobs)} have a log-probability"
            )

    @property
    def is_sampled(self) -> bool:
        """Whether the policy chose these tokens."""
        return self.behavior_logprobs is not None


@dataclass(frozen=True, slots=True)
class Rollout:
    """One answer, of one or more turns."""

    spans: tuple[Span, ...]
    """The prompt first."""
    stop: StopReason

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens in order."""
        return tuple(token for span in self.spans for token in span.token_ids)

    @property
    def is_sampled(self) -> tuple[bool, ...]:
        """For each token, whether the policy chose it."""
        return tuple(span.is_sampled for span in self.spans for _ in span.token_ids)

    @property
    def num_sampled(self) -> int:
        """Tokens that the policy chose."""
        return sum(len(span.token_ids) for span in self.spans if span.is_sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to draw."""

    temperature: float = 1.0
    """0 takes the likeliest; its log-probabilities are then those at temperature 1."""
    max_tokens: int = 64
    """Of each answer whose request says nothing else."""
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One prompt and how often to answer it."""

    token_ids: tuple[int, ...]
    seeds: tuple[int, ...]
    """One for each answer, which depends on weights, prompt, sampling and its seed, and on nothing else in a batch."""
    max_tokens: int | None = None
    """Of each answer; the sampling's where None. Another limit cuts the same answer elsewhere."""

    def limit(self, sampling: Sampling) -> int:
        """The most tokens of an answer."""
        return sampling.max_tokens if self.max_tokens is None else self.max_tokens


class Sampler(Protocol):
    """Draws from a policy: in this process (`in_process`), or from engines (`engine`)."""

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        ...

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        """For each request, a sampled span for each of its seeds, in order.

        Raises:
            MissingLogprobsError: an engine keeps them back.
        """
        ...
