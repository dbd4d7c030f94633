"""What one optimiser step learns from: groups of rollouts on one prompt, with a credit for every sampled token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from train.losses import Totals
from train.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Credit:
    """What one rollout teaches. A tuple has one member for each token behind the prompt, 0 where nothing is taught."""

    rollout: Rollout
    advantages: tuple[float, ...]
    ce_weights: tuple[float, ...]
    """Of tokens that are learned by heart: solutions that were generated, retries that came right."""
    reward: float | None = None
    """Of the whole rollout; None where nobody judged it."""

    def __post_init__(self) -> None:
        num = sum(len(span.token_ids) for span in self.rollout.spans[1:])
        if len(self.advantages) != num or len(self.ce_weights) != num:
            raise ValueError(
                f"{num} tokens, {len(self.advantages)} advantages and {len(self.ce_weights)} weights"
            )

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All behind the prompt."""
        return tuple(token for span in self.rollout.spans[1:] for token in span.token_ids)

    @property
    def behavior_logprobs(self) -> tuple[float, ...]:
        """At each token behind the prompt; 0 where it was given, for it is masked there."""
        return tuple(
            logprob
            for span in self.rollout.spans[1:]
            for logprob in span.behavior_logprobs or (0.0,) * len(span.token_ids)
        )

    @property
    def is_sampled(self) -> tuple[bool, ...]:
        """Whether the policy chose each token behind the prompt."""
        return tuple(span.is_sampled for span in self.rollout.spans[1:] for _ in span.token_ids)

    @property
    def has_advantage(self) -> bool:
        """Whether a policy gradient is taken of it."""
        return any(self.advantages)

    @property
    def teaches(self) -> bool:
        """Whether anything is learned from it at all."""
        return self.has_advantage or any(self.ce_weights)


@dataclass(frozen=True, slots=True)
class Group:
    """Rollouts on one prompt."""

    domain: str
    prompt: tuple[int, ...]
    credits: tuple[Credit, ...]
    temperature: float | None = None
    """At which its rollouts were drawn, and are scored; the policy's own where None."""

    @property
    def num_computed(self) -> int:
        """Tokens that a forward pass computes at most; what its answers have in common is computed once."""
        return len(self.prompt) + sum(len(credit.token_ids) for credit in self.credits)


def totals_of(groups: Iterable[Group], *, max_tokens: int) -> Totals:
    """The denominators of a step over these groups.

    A group whose rollouts all did equally well counts in none of them but for what it teaches by heart: many such
    groups make a step that is measured on fewer tokens, not a weaker one. In the other groups every rollout counts.
    """
    groups = tuple(groups)
    credits = [credit for group in groups for credit in group.credits]
    advantaged = [
        credit
        for group in groups
        if any(credit.has_advantage for credit in group.credits)
        for credit in group.credits
    ]
    num_tokens = sum(sum(credit.is_sampled) for credit in advantaged)
    return Totals(
        num_rollouts=len(advantaged),
        num_tokens=num_tokens,
        ce_weight=sum(sum(credit.ce_weights) for credit in credits),
        num_reference_tokens=sum(map(bool, chain.from_iterable(each.advantages for each in credits))),
        max_tokens=max_tokens,
    )


def micro_batches(groups: Sequence[Group], *, max_tokens: int) -> Iterator[tuple[Group, ...]]:
    """The groups in their order, as many at once as compute no more than `max_tokens`.

    What groups begin with alike is computed once, and counted once. A group that teaches nothing is left out; one that
    is too large is cut, its prompt being computed again.
    """
    batch: list[Group] = []
    beginnings = _Beginnings()
    for group in _cut(groups, max_tokens):
        if beginnings.with_group(group) > max_tokens and batch:
            yield tuple(batch)
            batch, beginnings = [], _Beginnings()
            beginnings.with_group(group)
        batch.append(group)
    if batch:
        yield tuple(batch)


class _Beginnings:
    """Distinct beginnings of sequences: each is a token to compute (`model.tree`)."""

    def __init__(self) -> None:
        self._longer: dict[tuple[int, int], int] = {}
        """By a beginning, 0 the empty one, and the token behind it."""

    def with_group(self, group: Group) -> int:
        """How many there are with a group's."""
        prompt = self._add(0, group.prompt)
        for credit in group.credits:
            self._add(prompt, credit.token_ids)
        return len(self._longer)

    def _add(self, beginning: int, token_ids: Sequence[int]) -> int:
        for token in token_ids:
            beginning = self._longer.setdefault((beginning, token), len(self._longer) + 1)
        return beginning


def _cut(groups: Iterable[Group], max_tokens: int) -> Iterator[Group]:
    for group in groups:
        part: list[Credit] = []
        size = len(group.prompt)
        for credit in group.credits:
            if not credit.teaches:
                continue
            if part and size + len(credit.token_ids) > max_tokens:
                yield replace(group, credits=tuple(part))
                part, size = [], len(group.prompt)
            part.append(credit)
            size += len(credit.token_ids)
        if part:
            yield replace(group, credits=tuple(part))
