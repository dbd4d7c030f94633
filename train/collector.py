"""A step's rollouts, from the plan to credits: plan, sample, judge, think over, credit. Reads from top to bottom in
`Collector.collect`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from train.advantages import DomainScale
from train.batch import Group
from train.credit import reinforced
from train.curriculum import Curriculum, Draw
from train.domains.base import Item, Verdict
from train.parts import Parts
from train.recipe import Recipe
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span
from train.seeds import seed_of
from train.setbacks import Setback, second_score, setbacks_of
from train.transcript import Message, answered


@dataclass(frozen=True, slots=True)
class Collected:
    """What a step learns from, and what became of it."""

    groups: tuple[Group, ...]
    draws: tuple[Draw, ...]
    verdicts: tuple[tuple[Verdict, ...], ...]
    """Of the first tries, by draw."""
    metrics: Mapping[str, Any]


class Collector:
    """Collects.

    Args:
        recipe: of the run.
        parts: of the run.
        curriculum: plans.
        scale: of domains' advantages; None leaves them as they are.
    """

    def __init__(
        self, recipe: Recipe, parts: Parts, curriculum: Curriculum, scale: DomainScale | None
    ) -> None:
        self._recipe = recipe
        self._parts = parts
        self._curriculum = curriculum
        self._scale = scale
        self._max_tokens = {domain.name: domain.max_answer_tokens for domain in recipe.domains}

    def collect(self, number: int) -> Collected:
        """The step's rollouts, sampled from the weights as the sampler has them."""
        rl, codec = self._recipe.rl, self._parts.codec
        draws = self._curriculum.plan(number, rl.groups_per_step)
        items = self.items(draws)
        began = time.perf_counter()
        requests = [
            SampleRequest(codec.prompt([Message("user", item.prompt)]), self._seeds("rollout", number, place))
            for place, item in enumerate(items)
        ]
        rollouts = self._sample(items, requests)
        sampled = time.perf_counter()
        verdicts = self._judge(items, rollouts)
        judged = time.perf_counter()
        groups = [
            reinforced(item, of_item, told, self._scale)
            for item, of_item, told in zip(items, rollouts, verdicts, strict=True)
        ]
        metrics = _outcome(items, rollouts, verdicts)
        if rl.setbacks.share:
            second, seconds = self._think_over(number, items, rollouts, verdicts)
            groups += second
            metrics |= seconds
        metrics |= {
            "sample_seconds": sampled - began,
            "judge_seconds": judged - sampled,
            "setback_seconds": time.perf_counter() - judged,
        }
        return Collected(tuple(groups), draws, tuple(map(tuple, verdicts)), metrics)

    def items(self, draws: Sequence[Draw]) -> list[Item]:
        """The items of a plan."""
        seed = seed_of(self._recipe.seed, "items")
        return [self._parts.domains[draw.domain].item(seed, draw.index, draw.level) for draw in draws]

    def max_answer_tokens(self, item: Item) -> int:
        """As the recipe says, or the item."""
        return self._max_tokens[item.domain] or item.max_answer_tokens

    def _seeds(self, *name: str | int) -> tuple[int, ...]:
        num = self._recipe.rl.rollouts_per_group
        return tuple(seed_of(self._recipe.seed, *name, each) for each in range(num))

    def _sample(self, items: Sequence[Item], requests: Sequence[SampleRequest]) -> list[list[Rollout]]:
        sampling = Sampling(
            temperature=self._recipe.rl.temperature,
            max_tokens=max(map(self.max_answer_tokens, items)),
            stop_token_ids=(self._parts.codec.end_token_id,),
        )
        drawn = self._parts.sampler.sample(requests, sampling)
        prompts = [Span(request.token_ids) for request in requests]
        return [
            [Rollout((prompt, span), stop) for span, stop in spans]
            for prompt, spans in zip(prompts, drawn, strict=True)
        ]

    def _judge(self, items: Sequence[Item], rollouts: Sequence[Sequence[Rollout]]) -> list[list[Verdict]]:
        text = self._parts.codec.text
        pairs = [
            (item, answered(text(rollout.spans[-1].token_ids)))
            for item, of_item in zip(items, rollouts, strict=True)
            for rollout in of_item
        ]
        verdicts = iter(self._parts.pool.verify_all(pairs))
        return [[next(verdicts) for _ in of_item] for of_item in rollouts]

    def _think_over(
        self,
        number: int,
        items: Sequence[Item],
        rollouts: Sequence[Sequence[Rollout]],
        verdicts: Sequence[Sequence[Verdict]],
    ) -> tuple[list[Group], dict[str, Any]]:
        """Groups of second tries, and what they changed."""
        node = self._recipe.rl.setbacks
        setbacks = setbacks_of(
            items,
            rollouts,
            verdicts,
            num=round(node.share * len(items)),
            seed=seed_of(self._recipe.seed, "setbacks", number),
        )
        if not setbacks:
            return [], {}
        tried = [setback.item for setback in setbacks]
        requests = [
            setback.request(self._parts.codec, self._seeds("second", number, place))
            for place, setback in enumerate(setbacks)
        ]
        second = self._sample(tried, requests)
        told = self._judge(tried, second)
        groups = [
            reinforced(
                setback.item,
                of_item,
                [
                    second_score(
                        setback,
                        verdict,
                        wrong_to_right=node.wrong_to_right,
                        right_to_wrong=node.right_to_wrong,
                    )
                    for verdict in verdicts_of
                ],
                self._scale,
            )
            for setback, of_item, verdicts_of in zip(setbacks, second, told, strict=True)
        ]
        return groups, _changes(setbacks, told)


def _outcome(
    items: Sequence[Item], rollouts: Sequence[Sequence[Rollout]], verdicts: Sequence[Sequence[Verdict]]
) -> dict[str, Any]:
    """What became of a step's first tries, altogether and by domain."""
    by_domain: dict[str, list[float]] = defaultdict(list)
    for item, told in zip(items, verdicts, strict=True):
        by_domain[item.domain] += [verdict.score for verdict in told]
    told_all = [verdict for told in verdicts for verdict in told]
    lengths = [rollout.num_sampled for of_item in rollouts for rollout in of_item]
    return {
        "score": fmean(verdict.score for verdict in told_all),
        "error_share": fmean(verdict.error is not None for verdict in told_all),
        "alike_share": fmean(len({verdict.score for verdict in told}) == 1 for told in verdicts),
        "num_sampled": sum(lengths),
        "mean_length": fmean(lengths),
        **{f"score/{domain}": fmean(scores) for domain, scores in by_domain.items()},
    }


def _changes(setbacks: Sequence[Setback], told: Sequence[Sequence[Verdict]]) -> dict[str, Any]:
    """Shares of second tries that recovered what was wrong, and lost what was right."""
    found: dict[bool, list[bool]] = {False: [], True: []}
    for setback, verdicts in zip(setbacks, told, strict=True):
        found[setback.was_right] += [verdict.passed for verdict in verdicts]
    metrics: dict[str, Any] = {"num_second": sum(map(len, found.values()))}
    if found[False]:
        metrics["recovered_share"] = fmean(found[False])
    if found[True]:
        metrics["lost_share"] = 1 - fmean(found[True])
    return metrics
