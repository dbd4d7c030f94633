"""An evaluation asks all domains at once, and says of each what it would alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from train.domains.base import Item, Verdict
from train.domains.catalog import get
from train.evaluate import Evaluation, evaluate, held_out
from train.policy import build_policy
from train.recipe import load_recipe
from train.transcript import Transcript
from train.verifiers.pool import Pool

NAMES = ("terse_addition", "terse_sorting", "terse_counting")


class Judge:
    """Judges by what was said, letter for letter."""

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        scores = [sum(map(ord, item.prompt + transcript.answer)) % 7 / 6 for item, transcript in pairs]
        return [Verdict(score=score, passed=score > 0.5) for score in scores]


def evaluated(*names: str) -> Evaluation:
    policy = build_policy(load_recipe("r0", overrides={"base.width": 32}), Path, num_slots=4)
    return evaluate(
        {name: held_out(get(name), (0, 1), 5) for name in names},
        domains={name: get(name) for name in names},
        sampler=policy.sampler,
        codec=policy.codec,
        pool=cast("Pool", Judge()),
        max_tokens=lambda item: 3 + len(item.prompt) % 3,
        num_samples=2,
    )


def test_domains_together_score_as_each_alone() -> None:
    """What else is asked changes no answer, and no domain gets another's verdicts."""
    assert evaluated(*NAMES).domains == tuple(evaluated(name).domains[0] for name in NAMES)
    assert len({score.greedy.mean for score in evaluated(*NAMES).domains}) > 1
