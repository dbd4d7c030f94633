"""What a policy can do: on held-out items of each domain, greedily and by samples, with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Final

from train.codec import Codec
from train.domains.base import Domain, Item, Verdict
from train.process_scores import Course, ProcessScore
from train.rollouts.rollout import Sampler, SampleRequest, Sampling, Span, StopReason
from train.rollouts.turns import TurnLimits, play
from train.seeds import seed_of
from train.transcript import Message, Transcript, answered
from train.verifiers.pool import Judge

EVALUATION_SEED: Final = 2_000_003
"""Of every evaluation's items; training never draws from it."""
MAX_ROLLOUT_TOKENS: Final = 2048
"""Of an item with tools."""
Z_95: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Score:
    """A mean score over items, with its 95 % interval (normal, over items: samples of one item are averaged first)."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, by_item: Sequence[float]) -> Score:
        """Of one number an item, at least one."""
        mean = fmean(by_item)
        half = Z_95 * stdev(by_item) / sqrt(len(by_item)) if len(by_item) > 1 else 1.0
        return cls(mean, max(0.0, mean - half), min(1.0, mean + half))

    @property
    def half_width(self) -> float:
        """Of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainScore:
    """One domain's."""

    domain: str
    num_items: int
    greedy: Score
    sampled: Score | None
    """Mean over samples at temperature 1; None where none were drawn."""
    num_errors: int
    """Items without a verdict: scored 0, and to be looked at."""
    mean_tokens: float
    """Of the greedy answers, their ends included; with tools, of the last turn."""
    process: ProcessScore | None = None
    """How the greedy answers went about it; None where items have no tools."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Of one policy."""

    domains: tuple[DomainScore, ...]

    @property
    def greedy(self) -> Score:
        """Macro mean over domains, greedily; the interval is that of independent domains."""
        return macro_mean([score.greedy for score in self.domains])

    @property
    def sampled(self) -> Score | None:
        """The same, by samples."""
        found = [score.sampled for score in self.domains if score.sampled is not None]
        return macro_mean(found) if len(found) == len(self.domains) else None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


_Said = tuple[Span, StopReason, Transcript]


@dataclass(frozen=True, slots=True)
class Answer:
    """An item, what a policy said, and what it is worth: what a report shows."""

    item: Item
    span: Span
    """Of the last turn."""
    stop: StopReason
    transcript: Transcript
    verdict: Verdict


def held_out(domain: Domain, levels: Sequence[int], num_items: int) -> list[Item]:
    """The items of an evaluation, over the levels in turn; always the same."""
    return [domain.item(EVALUATION_SEED, index, levels[index % len(levels)]) for index in range(num_items)]


def evaluate(
    items: Mapping[str, Sequence[Item]],
    *,
    domains: Mapping[str, Domain],
    sampler: Sampler,
    codec: Codec,
    pool: Judge,
    max_tokens: Callable[[Item], int],
    num_samples: int = 0,
    read: Callable[[str], Transcript] = answered,
    on_answers: Callable[[Sequence[Answer]], None] = lambda _: None,
    on_samples: Callable[[Sequence[Sequence[Answer]]], None] = lambda _: None,
) -> Evaluation:
    """The scores of the policy that `sampler` draws from.

    Args:
        items: of each domain, from `held_out`.
        domains: by name; they have the references that episodes with tools are held against.
        sampler: as it is now.
        codec: the policy's.
        pool: judges.
        max_tokens: of an item's answer.
        num_samples: beside the greedy answer.
        read: what an answer's text says (`train.modes.read` where answers have modes).
        on_answers: told every domain's greedy answers, for a report.
        on_samples: told every domain's samples, item by item, where any were drawn.
    """
    asked = partial(ask, sampler=sampler, codec=codec, pool=pool, max_tokens=max_tokens, read=read)
    at_once = list(chain.from_iterable(items.values()))
    all_greedy = iter(asked(at_once, 1, 0.0))
    all_sampled = iter(asked(at_once, num_samples, 1.0) if num_samples else [])
    scores = []
    for domain, of_domain in items.items():
        greedy = [answers[0] for answers in islice(all_greedy, len(of_domain))]
        on_answers(greedy)
        sampled = list(islice(all_sampled, len(of_domain)))
        if sampled:
            on_samples(sampled)
        scores.append(
            DomainScore(
                domain=domain,
                num_items=len(of_domain),
                greedy=Score.of([answer.verdict.score for answer in greedy]),
                sampled=Score.of([fmean(a.verdict.score for a in answers) for answers in sampled])
                if sampled
                else None,
                num_errors=sum(answer.verdict.error is not None for answer in greedy),
                mean_tokens=fmean(len(answer.span.token_ids) for answer in greedy),
                process=_process(domains[domain], greedy),
            )
        )
    return Evaluation(tuple(scores))


def ask(
    items: Sequence[Item],
    num_answers: int,
    temperature: float,
    *,
    sampler: Sampler,
    codec: Codec,
    pool: Judge,
    max_tokens: Callable[[Item], int],
    read: Callable[[str], Transcript] = answered,
    opening: tuple[int, ...] = (),
) -> list[list[Answer]]:
    """So many answers to each item, judged; all of them begin with the tokens of `opening`, which are not sampled.

    Items with tools are played over turns, without an opening.
    """
    sampling = Sampling(temperature=temperature, stop_token_ids=(codec.end_token_id,))
    seeds = [
        tuple(seed_of(EVALUATION_SEED, item.id, place) for place in range(num_answers)) for item in items
    ]
    said: dict[int, list[_Said]] = {}
    with_tools = [place for place, item in enumerate(items) if item.environment is not None]
    if with_tools:
        played = play(
            [(items[place], seeds[place]) for place in with_tools],
            sampler=sampler,
            codec=codec,
            sampling=sampling,
            limits=TurnLimits(max_tokens=MAX_ROLLOUT_TOKENS),
            max_tokens=max_tokens,
        )
        for place, row in zip(with_tools, played, strict=True):
            said[place] = [(each.rollout.spans[-1], each.rollout.stop, each.transcript) for each in row]
    requests = {
        place: SampleRequest(
            codec.prompt([Message("user", item.prompt)]) + opening, seeds[place], max_tokens(item)
        )
        for place, item in enumerate(items)
        if item.environment is None
    }
    for places in _alike_in_length(requests):
        drawn = sampler.sample([requests[place] for place in places], sampling)
        for place, spans in zip(places, drawn, strict=True):
            said[place] = [(span, stop, read(codec.text(opening + span.token_ids))) for span, stop in spans]
    pairs = [(item, transcript) for place, item in enumerate(items) for *_, transcript in said[place]]
    verdicts = iter(pool.verify_all(pairs))
    return [
        [Answer(item, span, stop, transcript, next(verdicts)) for span, stop, transcript in said[place]]
        for place, item in enumerate(items)
    ]


def _alike_in_length(requests: Mapping[int, SampleRequest]) -> Iterable[list[int]]:
    """Which to sample at once: prompts within a factor of two, for the longest decides how many a cache holds."""
    lots: dict[int, list[int]] = defaultdict(list)
    for place, request in requests.items():
        lots[len(request.token_ids).bit_length()].append(place)
    return lots.values()


def _process(domain: Domain, answers: Sequence[Answer]) -> ProcessScore | None:
    courses = [
        Course.of(
            answer.item,
            domain.reference(answer.item),
            answer.transcript,
            is_right=answer.verdict.passed,
            is_ended=answer.stop is StopReason.END,
        )
        for answer in answers
        if answer.item.environment is not None
    ]
    return ProcessScore.of(courses) if courses else None


def macro_mean(scores: Sequence[Score]) -> Score:
    """The mean of independent scores, at least one, with its interval."""
    mean = fmean(score.mean for score in scores)
    half = sqrt(sum(score.half_width**2 for score in scores)) / len(scores)
    return Score(mean, max(0.0, mean - half), min(1.0, mean + half))
