"""Exploration: hot where a level is new or uncertain, plain where it is known; each group scored as it was drawn."""

from __future__ import annotations

from math import sqrt
from statistics import fmean

import pytest
import torch

from tests.train.model.tiny import tiny_llama
from train.batch import Credit, Group
from train.curriculum import Rate
from train.exploration import WORDINGS, Exploration, Kind, Way, heat, novelty, uncertainty
from train.model.linear import FloatLinear
from train.model.policy import LlamaPolicy
from train.model.trainable import train_all
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span


def exploration(kind: Kind) -> Exploration:
    return Exploration(kind, temperature=1.0, temperatures=(0.8, 1.2), seed=5)


def test_heat_by_hand() -> None:
    """Nothing known: 1 and 1. After 32 rollouts, half right: 1/2, and √(12·17²/(34²·35)) = √(3/35)."""
    assert (novelty(Rate()), uncertainty(Rate())) == pytest.approx((1.0, 1.0))
    seen = Rate(16.0, 16.0)
    assert novelty(seen) == pytest.approx(0.5)
    assert uncertainty(seen) == pytest.approx(sqrt(3 / 35))
    assert heat(seen) == pytest.approx((0.5 + sqrt(3 / 35)) / 2)


def test_heat_falls_with_what_is_seen() -> None:
    """At every rate of success, and less where the chance is near a half."""
    for share in (0.0, 0.2, 0.5, 1.0):
        heats = [heat(Rate(num * share, num * (1 - share))) for num in (0, 8, 32, 128, 200)]
        assert heats == sorted(heats, reverse=True)
    assert heat(Rate(16.0, 16.0)) > heat(Rate(32.0, 0.0))


def test_active_is_hot_where_it_is_new() -> None:
    """A new level gets the highest temperature and often other words; a known one the low, and seldom."""
    active = exploration("active")
    new = [active.way(Rate(), 0, place) for place in range(200)]
    known = [active.way(Rate(190.0, 10.0), 0, place) for place in range(200)]
    assert {way.temperature for way in new} == {1.2}
    assert max(way.temperature for way in known) < 0.95
    varied = [fmean(way.wording != "{}" for way in ways) for ways in (new, known)]
    assert varied[0] == pytest.approx(0.5, abs=0.1)
    assert varied[1] < 0.15


def test_fixed_and_uniform_do_not_look() -> None:
    """The plain prompt at one temperature; and all temperatures whatever is known, the same for the same place."""
    fixed, uniform = exploration("fixed"), exploration("uniform")
    assert {fixed.way(Rate(), 0, place) for place in range(20)} == {Way(1.0)}
    ways = [uniform.way(Rate(), 3, place) for place in range(100)]
    assert ways == [uniform.way(Rate(200.0, 0.0), 3, place) for place in range(100)]
    assert len({way.temperature for way in ways}) == 5
    assert {way.wording for way in ways} <= {"{}", *WORDINGS}


def test_wording_keeps_the_prompt() -> None:
    """Every one says the prompt itself, whatever braces it has."""
    for wording in WORDINGS:
        assert 'f({"a": {}})' in Way(1.0, wording).said('f({"a": {}})')


def test_groups_are_scored_at_their_own_temperatures() -> None:
    """What the sampler says of its draws at each temperature is what the learner says of them, in one batch."""
    model = tiny_llama()
    train_all(model)
    sampler = InProcessSampler(model, num_slots=4, make_linear=FloatLinear)
    groups = []
    for temperature in (0.7, 1.0, 1.4):
        request = SampleRequest((3, 1, 4), (11, 12))
        (drawn,) = sampler.sample([request], Sampling(temperature=temperature, max_tokens=6))
        credits = tuple(
            Credit(Rollout((Span(request.token_ids), span), stop), (1.0,) * 6, (0.0,) * 6)
            for span, stop in drawn
        )
        groups.append(Group("d", request.token_ids, credits, temperature))
    policy = LlamaPolicy(model, temperature=1.0)
    behavior = [b for group in groups for credit in group.credits for b in credit.behavior_logprobs]
    found = policy.score(groups).logprobs
    torch.testing.assert_close(found, torch.tensor(behavior, dtype=found.dtype), rtol=0, atol=1e-4)
    plain = policy.score([Group(g.domain, g.prompt, g.credits) for g in groups]).logprobs
    assert (plain - found).abs().max() > 0.05
    policy.keep_reference()
    torch.testing.assert_close(policy.reference(groups), found.detach())
