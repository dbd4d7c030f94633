"""Setbacks: a policy's own failure, the verifier's evidence, and another try, credited for what the try changed.

A second try is asked with what the policy sampled, token for token, and the evidence behind it; both are given, so no
gradient falls on a copied failure. Its reward is the verdict's score, plus a bonus where wrong became right and less a
penalty where right became wrong (SCoRe, arXiv 2409.12917), so that neither repeating oneself nor always changing one's
mind pays. Some right answers are questioned too: without them the policy would learn that it is always wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from train.codec import Codec
from train.domains.base import Item, Verdict
from train.rollouts.rollout import Rollout, SampleRequest, StopReason
from train.seeds import seed_of
from train.transcript import Message

QUESTION: Final = "Check your answer. {evidence}Give the final answer again."
"""Said of right and wrong answers alike, so that it tells nothing by itself."""
QUESTIONED_SHARE: Final = 0.25
"""Of the second tries, those that question a right answer."""


@dataclass(frozen=True, slots=True)
class Setback:
    """A first try that is to be thought over."""

    item: Item
    first: Rollout
    was_right: bool
    evidence: str

    def request(self, codec: Codec, seeds: Sequence[int]) -> SampleRequest:
        """What asks for the second try."""
        said = f"{self.evidence.rstrip('.')}. " if self.evidence else ""
        reply = codec.reply([Message("user", QUESTION.format(evidence=said))])
        return SampleRequest(self.first.token_ids + reply, tuple(seeds))


def setbacks_of(
    items: Sequence[Item],
    rollouts: Sequence[Sequence[Rollout]],
    verdicts: Sequence[Sequence[Verdict]],
    *,
    num: int,
    seed: int,
) -> list[Setback]:
    """At most `num` first tries of a step to be thought over: mostly failures, each of another group.

    A group that failed throughout is passed over, for its prompts are beyond the policy; so is a rollout without a
    verdict, or one that did not come to its end, and a task with tools, where failed calls are thought over in turns.
    """
    wrong: list[Setback] = []
    right: list[Setback] = []
    for item, of_item, told in zip(items, rollouts, verdicts, strict=True):
        ended = [
            Setback(item, rollout, verdict.passed, "" if verdict.passed else verdict.evidence)
            for rollout, verdict in zip(of_item, told, strict=True)
            if verdict.error is None and rollout.stop is StopReason.END
        ]
        if item.environment is not None or not any(setback.was_right for setback in ended):
            continue
        rng = random.Random(seed_of(seed, "setback", item.id))
        for kind, pick in ((wrong, False), (right, True)):
            if fitting := [setback for setback in ended if setback.was_right is pick]:
                kind.append(rng.choice(fitting))
    num_right = min(len(right), round(num * QUESTIONED_SHARE))
    return [*wrong[: num - num_right], *right[:num_right]]


def second_score(
    setback: Setback, verdict: Verdict, *, wrong_to_right: float, right_to_wrong: float
) -> Verdict:
    """The verdict on a second try with the change in its score; it may leave [0, 1], for it is a reward alone."""
    if verdict.error is not None or verdict.passed is setback.was_right:
        return verdict
    change = wrong_to_right if verdict.passed else -right_to_wrong
    return replace(verdict, score=verdict.score + change)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a second try does, on items that training never saw; shares of the first tries of a kind."""

    num_wrong: int
    num_right: int
    recovered: float
    """Wrong → right."""
    lost: float
    """Right → wrong."""

    @property
    def gain(self) -> float:
        """Change of the share of right answers if every answer is thought over."""
        total = self.num_wrong + self.num_right
        return (self.recovered * self.num_wrong - self.lost * self.num_right) / total if total else 0.0


def recovery(first: Sequence[bool], second: Sequence[bool]) -> Recovery:
    """Of the same items, whether they were right at first and then."""
    after_wrong = [then for before, then in zip(first, second, strict=True) if not before]
    after_right = [then for before, then in zip(first, second, strict=True) if before]
    return Recovery(
        num_wrong=len(after_wrong),
        num_right=len(after_right),
        recovered=sum(after_wrong) / len(after_wrong) if after_wrong else 0.0,
        lost=after_right.count(False) / len(after_right) if after_right else 0.0,
    )
