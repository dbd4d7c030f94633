"""Chosen mode against each forced: a sampler that is right at work and wrong when direct, and chooses by level."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from train.codec import CharacterCodec
from train.domains.base import Item, Verdict
from train.domains.catalog import get
from train.evaluate import held_out
from train.mode_scores import mode_metrics, score_modes
from train.modes import Mode, opening, solution
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.transcript import Message, Transcript

CODEC = CharacterCodec()
DOMAIN = get("terse_addition")
ITEMS = held_out(DOMAIN, (0, 1), 8)


class Choosing:
    """Works on level 1 and answers directly on level 0; direct answers are right on level 0 alone."""

    policy_version = 0

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        return [[(self._answer(request), StopReason.END)] for request in requests]

    def _answer(self, request: SampleRequest) -> Span:
        item = next(
            each for each in ITEMS if self._prompt(each) == request.token_ids[: len(self._prompt(each))]
        )
        given = request.token_ids[len(self._prompt(item)) :]
        wanted = Mode.WORK if item.level else Mode.DIRECT
        mode = next((mode for mode in Mode if opening(CODEC, mode) == given), wanted)
        tokens = solution(CODEC, DOMAIN, item, mode)
        if mode is Mode.DIRECT and item.level:
            tokens = (*opening(CODEC, mode), *CODEC.answer("no"))
        tokens = tokens[len(given) :]
        return Span(tokens, (0.0,) * len(tokens), 0)

    @staticmethod
    def _prompt(item: Item) -> tuple[int, ...]:
        return CODEC.prompt([Message("user", item.prompt)])


class InPlace:
    """Judges here."""

    def verify_all(self, pairs: Sequence[tuple[Item, Transcript]]) -> list[Verdict]:
        return [DOMAIN.verify(*pair) for pair in pairs]


def test_chosen_against_forced() -> None:
    """Easy items: direct is as good and shorter, and is chosen. Hard ones: work alone is right, and is chosen."""
    easy, hard = score_modes(
        {"terse_addition": ITEMS},
        sampler=Choosing(),
        codec=CODEC,
        pool=InPlace(),  # type: ignore[arg-type]
        max_tokens=lambda _: 64,
    )
    assert (easy.level, hard.level, easy.num_items, hard.num_items) == (0, 1, 4, 4)
    assert (easy.work_share, hard.work_share) == (0.0, 1.0)
    assert [each.score.mean for each in (easy.chosen, easy.direct, easy.work)] == [1.0, 1.0, 1.0]
    assert [each.score.mean for each in (hard.chosen, hard.direct, hard.work)] == [1.0, 0.0, 1.0]
    assert easy.chosen == easy.direct
    assert easy.direct.mean_tokens < easy.work.mean_tokens
    assert hard.chosen == hard.work


def test_metrics_of_a_step() -> None:
    """Shares of all rollouts; a mode that nobody chose has no score."""
    told = [
        [Verdict(score=1.0, passed=True), Verdict(score=0.0, passed=False)],
        [Verdict(score=1.0, passed=True)] * 2,
    ]
    texts = ["direct\n1", "direct\n2", "direct\n3", "4"]
    assert mode_metrics(texts, told) == {
        "direct_share": 0.75,
        "direct_score": pytest.approx(2 / 3),
        "work_share": 0.0,
    }
