"""What a policy can do: on held-out items of each domain, greedily and by samples, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
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
from train.verifiers.pool import Pool

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
        return _macro([score.greedy for score in self.domains])

    @property
    def sampled(self) -> Score | None:
        """The same, by samples."""
        found = [score.sampled for score in self.domains if score.sampled is not None]
        return _macro(found) if len(found) == len(self.domains) else None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


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
    pool: Pool,
    max_tokens: Callable[[Item], int],
    num_samples: int = 0,
    read: Callable[[str], Transcript] = answered,
    on_answers: Callable[[Sequence[Answer]], None] = lambda _: None,
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
    """
    asked = partial(ask, sampler=sampler, codec=codec, pool=pool, max_tokens=max_tokens, read=read)
    scores = []
    for domain, of_domain in items.items():
        greedy = asked(of_domain, 1, 0.0)
        on_answers([answers[0] for answers in greedy])
        sampled = asked(of_domain, num_samples, 1.0) if num_samples else []
        scores.append(
            DomainScore(
                domain=domain,
                num_items=len(of_domain),
                greedy=Score.of([answers[0].verdict.score for answers in greedy]),
                sampled=Score.of([fmean(a.verdict.score for a in answers) for answers in sampled])
                if sampled
                else None,
                num_errors=sum(answers[0].verdict.error is not None for answers in greedy),
                mean_tokens=fmean(len(answers[0].span.token_ids) for answers in greedy),
                process=_process(domains[domain], [answers[0] for answers in greedy]),
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
    pool: Pool,
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
    if any(item.environment is not None for item in items):
        limits = TurnLimits(max_tokens=MAX_ROLLOUT_TOKENS)
        tasks = list(zip(items, seeds, strict=True))
        played = play(
            tasks, sampler=sampler, codec=codec, sampling=sampling, limits=limits, max_tokens=max_tokens
        )
        said = [
            [(episode.rollout.spans[-1], episode.rollout.stop, episode.transcript) for episode in row]
            for row in played
        ]
    else:
        requests = [
            SampleRequest(codec.prompt([Message("user", item.prompt)]) + opening, of_item, max_tokens(item))
            for item, of_item in zip(items, seeds, strict=True)
        ]
        said = [
            [(span, stop, read(codec.text(opening + span.token_ids))) for span, stop in spans]
            for spans in sampler.sample(requests, sampling)
        ]
    pairs = [(item, transcript) for item, row in zip(items, said, strict=True) for *_, transcript in row]
    verdicts = iter(pool.verify_all(pairs))
    return [
        [Answer(item, span, stop, transcript, next(verdicts)) for span, stop, transcript in row]
        for item, row in zip(items, said, strict=True)
    ]


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


def _macro(scores: Sequence[Score]) -> Score:
    mean = fmean(score.mean for score in scores)
    half = sqrt(sum(((score.high - score.low) / 2) ** 2 for score in scores)) / len(scores)
    return Score(mean, max(0.0, mean - half), min(1.0, mean + half))
