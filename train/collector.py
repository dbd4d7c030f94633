"""A step's rollouts, from the plan to credits: plan, sample, judge, think over, credit.

Reads from top to bottom in `Collector.collect`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Any

from train import modes
from train.advantages import DomainScale
from train.answer_limits import AnswerLimits
from train.batch import Group
from train.credit import reinforced
from train.curriculum import Curriculum, Draw
from train.domains.base import Item, Verdict
from train.exploration import Exploration, Way
from train.mode_scores import mode_metrics
from train.parts import Parts
from train.recipe import Recipe
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span
from train.rollouts.turns import Episode, TurnLimits, play
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """An item, how it is explored, and a seed for each try."""

    item: Item
    way: Way
    seeds: tuple[int, ...]

    @property
    def kind(self) -> tuple[float, bool]:
        """The temperature, and whether there are tools: what is alike is sampled together."""
        return self.way.temperature, self.item.environment is not None


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
        rl = recipe.rl
        self._exploration = Exploration(
            rl.exploration,
            temperature=rl.temperature,
            temperatures=rl.exploration_temperatures,
            seed=recipe.seed,
        )
        self._max_tokens = AnswerLimits(recipe, parts)

    def collect(self, number: int) -> Collected:
        """The step's rollouts, sampled from the weights as the sampler has them."""
        rl = self._recipe.rl
        draws = self._curriculum.plan(number, rl.groups_per_step)
        items = self.items(draws)
        ways = [
            self._exploration.way(self._curriculum.rates[draw.domain][draw.level], number, place)
            for place, draw in enumerate(draws)
        ]
        began = time.perf_counter()
        episodes = self._first_tries(number, items, ways)
        rollouts = [[episode.rollout for episode in of_item] for of_item in episodes]
        sampled = time.perf_counter()
        verdicts = self._judge(items, episodes)
        judged = time.perf_counter()
        groups = [
            replace(
                reinforced(item, of_item, self._rewards(of_item, told), self._scale),
                temperature=way.temperature,
            )
            for item, of_item, told, way in zip(items, rollouts, verdicts, ways, strict=True)
        ]
        metrics = _outcome(items, rollouts, verdicts)
        metrics["temperature"] = fmean(way.temperature for way in ways)
        if self._recipe.modes is not None:
            metrics |= mode_metrics(list(chain.from_iterable(map(self._texts, rollouts))), verdicts)
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

    def _seeds(self, *name: str | int) -> tuple[int, ...]:
        num = self._recipe.rl.rollouts_per_group
        return tuple(seed_of(self._recipe.seed, *name, each) for each in range(num))

    def _first_tries(self, number: int, items: Sequence[Item], ways: Sequence[Way]) -> list[list[Episode]]:
        """The episodes of each item, sampled together where their temperature is one; with tools, over turns."""
        asked = [
            _Asked(item, way, self._seeds("rollout", number, place))
            for place, (item, way) in enumerate(zip(items, ways, strict=True))
        ]
        found: dict[int, list[Episode]] = {}
        for temperature, has_tools in sorted({each.kind for each in asked}):
            places = [place for place, each in enumerate(asked) if each.kind == (temperature, has_tools)]
            of_kind = [asked[place] for place in places]
            drawn = (
                self._with_tools(of_kind, temperature)
                if has_tools
                else self._read(self._in_modes(number, of_kind, temperature))
            )
            found |= dict(zip(places, drawn, strict=True))
        return [found[place] for place in range(len(items))]

    def _with_tools(self, asked: Sequence[_Asked], temperature: float) -> list[list[Episode]]:
        return play(
            [(each.item, each.seeds) for each in asked],
            sampler=self._parts.sampler,
            codec=self._parts.codec,
            sampling=self._sampling(temperature),
            limits=TurnLimits(max_tokens=self._recipe.rl.max_rollout_tokens),
            max_tokens=self._max_tokens,
        )

    def _read(self, rollouts: Sequence[Sequence[Rollout]]) -> list[list[Episode]]:
        """Rollouts of one turn, and what they say."""
        read = answered if self._recipe.modes is None else modes.read
        return [
            [
                Episode(rollout, read(text))
                for rollout, text in zip(of_item, self._texts(of_item), strict=True)
            ]
            for of_item in rollouts
        ]

    def _in_modes(self, number: int, asked: Sequence[_Asked], temperature: float) -> list[list[Rollout]]:
        """As `_sample`; while modes are forced, half of each group in each."""
        codec, node = self._parts.codec, self._recipe.modes
        requests = [
            SampleRequest(
                codec.prompt([Message("user", each.way.said(each.item.prompt))]),
                each.seeds,
                self._max_tokens(each.item),
            )
            for each in asked
        ]
        if node is None or number >= node.forced_steps:
            return self._sample(requests, temperature)
        halved = [
            modes.halves(codec, request)
            if modes.can_work(self._parts.domains[each.item.domain])
            else (request,)
            for each, request in zip(asked, requests, strict=True)
        ]
        drawn = iter(self._sample(list(chain.from_iterable(halved)), temperature))
        return [
            modes.joined(codec, request, [next(drawn) for _ in parts]) if len(parts) > 1 else next(drawn)
            for request, parts in zip(requests, halved, strict=True)
        ]

    def _rewards(self, rollouts: Sequence[Rollout], verdicts: Sequence[Verdict]) -> list[Verdict]:
        """The verdicts, with what a direct answer earns where answers have modes."""
        if self._recipe.modes is None:
            return list(verdicts)
        bonus = self._recipe.modes.direct_bonus
        texts = self._texts(rollouts)
        return [modes.preferring_direct(*pair, bonus) for pair in zip(verdicts, texts, strict=True)]

    def _texts(self, rollouts: Sequence[Rollout]) -> list[str]:
        """What each rollout said, its mode included."""
        return [
            self._parts.codec.text(
                [token for span in rollout.spans if span.is_sampled for token in span.token_ids]
            )
            for rollout in rollouts
        ]

    def _sample(self, requests: Sequence[SampleRequest], temperature: float) -> list[list[Rollout]]:
        drawn = self._parts.sampler.sample(requests, self._sampling(temperature))
        prompts = [Span(request.token_ids) for request in requests]
        return [
            [Rollout((prompt, span), stop) for span, stop in spans]
            for prompt, spans in zip(prompts, drawn, strict=True)
        ]

    def _sampling(self, temperature: float) -> Sampling:
        """How to draw; every request has a limit of its own."""
        return Sampling(temperature=temperature, stop_token_ids=(self._parts.codec.end_token_id,))

    def _judge(self, items: Sequence[Item], episodes: Sequence[Sequence[Episode]]) -> list[list[Verdict]]:
        pairs = [
            (item, episode.transcript)
            for item, of_item in zip(items, episodes, strict=True)
            for episode in of_item
        ]
        verdicts = iter(self._parts.pool.verify_all(pairs))
        return [[next(verdicts) for _ in of_item] for of_item in episodes]

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
            replace(
                setback.request(self._parts.codec, self._seeds("second", number, place)),
                max_tokens=self._max_tokens(setback.item),
            )
            for place, setback in enumerate(setbacks)
        ]
        second = self._sample(requests, self._recipe.rl.temperature)
        told = self._judge(tried, self._read(second))
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
