"""Replay: the base's own words are drawn once, by seed alone, and heard beside a step's prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from train.general_prompts import PROMPTS, QUESTIONS
from train.recipe import ReplaySettings
from train.replay import QUESTION_TOKENS, Replay
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.transcript import Message


class Words:
    """A codec of bytes."""

    end_token_id = 0

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(messages[0].text.encode())


class Base:
    """Says each seed's last digit, and remembers what it was asked."""

    policy_version = 0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        self.asked += [bytes(request.token_ids).decode() for request in requests]
        said = [(request.seeds[0] % 10,) * sampling.max_tokens for request in requests]
        return [[(Span(tokens, (0.0,) * len(tokens)), StopReason.LENGTH)] for tokens in said]


def replay(seed: int, base: Base, **settings: Any) -> Replay:
    node = ReplaySettings(num_prompts=20, max_answer_tokens=3, **settings)
    return Replay(node, cast("Any", Words()), base, seed)


def test_prompts_are_different_and_of_no_domain() -> None:
    """No prompt stands twice, and the settings' bounds are their numbers."""
    assert len(set(PROMPTS)) == len(PROMPTS) == 492
    assert len(set(QUESTIONS)) == len(QUESTIONS) == 260
    assert not set(PROMPTS) & set(QUESTIONS)


def test_questions_are_heard_beside_the_prompts_with_short_answers() -> None:
    """Without them everything is drawn as it was; theirs are no longer than a short answer, and count in full."""
    plain, base = Base(), Base()
    replay(1, plain)
    made = replay(1, base, num_questions=10, share=1.0)
    assert base.asked[:20] == plain.asked
    assert set(base.asked[20:]) <= set(QUESTIONS)
    groups = made.groups("sft", 0, 30)
    assert len(groups) == 30
    asked = {bytes(group.prompt).decode(): group for group in groups}
    for question in base.asked[20:]:
        [credit] = asked[question].credits
        assert len(credit.token_ids) == QUESTION_TOKENS


def test_the_base_is_asked_once_whatever_is_heard() -> None:
    """Its words are drawn when replay is made; steps hear those."""
    base = Base()
    made = replay(1, base)
    heard = [made.groups("sft", number, 40) for number in range(5)]
    assert len(base.asked) == len(set(base.asked)) == 20
    assert all(bytes(group.prompt).decode() in base.asked for step in heard for group in step)


def test_a_step_hears_its_share_by_seed_and_number_alone() -> None:
    """A resumed run hears the same; another step, phase or seed hears other words."""
    made, again = replay(1, Base(), share=0.25), replay(1, Base(), share=0.25)
    assert made.groups("sft", 3, 40) == again.groups("sft", 3, 40)
    assert len(made.groups("sft", 3, 40)) == 10
    assert made.groups("sft", 3, 40) != made.groups("sft", 4, 40)
    assert made.groups("sft", 3, 40) != made.groups("rl", 3, 40)
    assert made.groups("sft", 3, 40) != replay(2, Base(), share=0.25).groups("sft", 3, 40)


@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_its_words_are_learned_by_heart_and_never_reinforced(weight: float) -> None:
    """Every token weighs what the recipe says; none has an advantage."""
    for group in replay(1, Base(), token_weight=weight).groups("sft", 0, 40):
        [credit] = group.credits
        assert set(credit.ce_weights) == {weight}
        assert not credit.has_advantage
