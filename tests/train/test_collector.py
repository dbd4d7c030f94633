"""What a step asks its sampler for: each prompt once, in its own form, with its own limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from tests.train.rollouts.test_turns import CharacterTurns, Scripted
from train.collector import Collected, Collector
from train.curriculum import Curriculum
from train.domains.base import Item, Verdict
from train.domains.catalog import get
from train.parts import Parts
from train.policy import build_policy
from train.recipe import Recipe, load_recipe
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.transcript import JsonValue, Message, Transcript

torch.set_num_threads(1)
LIMITS = {"terse_addition": 40, "terse_sorting": 70}


class Judge:
    """Judges by length."""

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        scores = [len(transcript.answer) % 3 / 2 for _, transcript in pairs]
        return [Verdict(score=score, passed=score > 0.5) for score in scores]


class Recording:
    """A sampler that keeps what it was asked."""

    def __init__(self, sampler: InProcessSampler, *, forced: int | None = None) -> None:
        self.sampler = sampler
        self.forced = forced
        """Of every answer, in place of the requests' own limits."""
        self.asked: list[SampleRequest] = []

    @property
    def policy_version(self) -> int:
        return self.sampler.policy_version

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        self.asked += requests
        if self.forced is not None:
            requests = [replace(request, max_tokens=None) for request in requests]
            sampling = replace(sampling, max_tokens=self.forced)
        return self.sampler.sample(requests, sampling)


def recipe_of(limits: dict[str, int], **more: object) -> Recipe:
    overrides: dict[str, object] = {
        "base.width": 32,
        "base.max_tokens": 256,
        "domains": [
            {"name": name, "levels": [0], "max_answer_tokens": limit} for name, limit in limits.items()
        ],
        "rl.groups_per_step": 8,
        "rl.rollouts_per_group": 6,
        "rl.setbacks": {"share": 0.5},
    }
    return load_recipe("r0", overrides=overrides | more)


def collected(recipe: Recipe, *, forced: int | None = None) -> tuple[Collected, Recording]:
    policy = build_policy(recipe, Path, num_slots=16)
    sampler = Recording(policy.sampler, forced=forced)
    return _collect(recipe, sampler, policy.codec, policy.model), sampler


def _collect(recipe: Recipe, sampler: Any, codec: Any, model: Any = None) -> Collected:
    domains = {domain.name: get(domain.name) for domain in recipe.domains}
    parts = Parts(model, sampler, codec, domains, cast("Any", Judge()))
    curriculum = Curriculum({domain.name: domain.levels for domain in recipe.domains}, kind="uniform")
    return Collector(recipe, parts, curriculum, None).collect(0)


def test_every_answer_has_its_items_limit() -> None:
    """First and second tries alike; nothing that was sampled is longer."""
    found, sampler = collected(recipe_of(LIMITS))
    assert found.metrics["num_second"]
    domains = {group.prompt: group.domain for group in found.groups}
    assert {request.max_tokens for request in sampler.asked} == set(LIMITS.values())
    assert all(request.max_tokens == LIMITS[domains[request.token_ids]] for request in sampler.asked)
    for group in found.groups:
        longest = max(credit.rollout.num_sampled for credit in group.credits)
        assert longest <= LIMITS[group.domain]


def test_where_limits_are_one_nothing_changes() -> None:
    """To the bit: as with the sampling's limit for all of a call."""
    recipe = recipe_of(dict.fromkeys(LIMITS, 40))
    assert collected(recipe)[0].groups == collected(recipe, forced=40)[0].groups
    mixed = collected(recipe_of(LIMITS))[0].groups
    assert mixed != collected(recipe_of(LIMITS), forced=70)[0].groups, "with several limits it does"


class Counting(CharacterTurns):
    """Counts how often a prompt is rendered, with and without tools."""

    def __init__(self) -> None:
        self.rendered: Counter[bool] = Counter()

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        self.rendered[bool(tools)] += 1
        return super().prompt(messages, tools)


def test_a_task_with_tools_is_rendered_with_them_alone() -> None:
    """Once a group, and never without; its turns have the item's limit."""
    codec, sampler = Counting(), Scripted(lambda _: "no")
    recipe = recipe_of({"tool_calculator": 40}, **{"rl.setbacks": {"share": 0.0}})
    found = _collect(recipe, sampler, codec)
    assert codec.rendered == {True: 8}
    assert len(found.groups) == 8
    assert {request.max_tokens for requests in sampler.asked for request in requests} == {40}
