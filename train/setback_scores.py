"""What thinking over does on items that training never saw: every greedy answer is questioned, right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from train.codec import Codec
from train.domains.base import Item
from train.evaluate import EVALUATION_SEED, Answer, ask
from train.rollouts.rollout import Rollout, Sampler, Sampling, Span, StopReason
from train.seeds import seed_of
from train.setbacks import Recovery, Setback, recovery
from train.transcript import Message, Transcript, answered
from train.verifiers.pool import Judge


def score_setbacks(
    items: Sequence[Item],
    *,
    sampler: Sampler,
    codec: Codec,
    pool: Judge,
    max_tokens: Callable[[Item], int],
    read: Callable[[str], Transcript] = answered,
) -> Recovery:
    """How many wrong answers a second try recovers, and how many right ones it loses.

    Answers that did not come to their end, or have no verdict, are left out.
    """
    asked = ask(items, 1, 0.0, sampler=sampler, codec=codec, pool=pool, max_tokens=max_tokens, read=read)
    setbacks = [_setback(codec, answers[0]) for answers in asked if _is_ended(codec, answers[0])]
    if not setbacks:
        return recovery([], [])
    sampling = Sampling(temperature=0.0, stop_token_ids=(codec.end_token_id,))
    seeds = [(seed_of(EVALUATION_SEED, setback.item.id, "second"),) for setback in setbacks]
    requests = [
        replace(setback.request(codec, seed), max_tokens=max_tokens(setback.item))
        for setback, seed in zip(setbacks, seeds, strict=True)
    ]
    second = [spans[0][0] for spans in sampler.sample(requests, sampling)]
    pairs = [
        (setback.item, read(codec.text(span.token_ids)))
        for setback, span in zip(setbacks, second, strict=True)
    ]
    told = pool.verify_all(pairs)
    return recovery([setback.was_right for setback in setbacks], [verdict.passed for verdict in told])


def _is_ended(codec: Codec, answer: Answer) -> bool:
    return answer.verdict.error is None and answer.span.token_ids[-1:] == (codec.end_token_id,)


def _setback(codec: Codec, answer: Answer) -> Setback:
    prompt = Span(codec.prompt([Message("user", answer.item.prompt)]))
    passed = answer.verdict.passed
    return Setback(
        answer.item,
        Rollout((prompt, answer.span), StopReason.END),
        passed,
        "" if passed else answer.verdict.evidence,
    )
