"""What each model is worth beside the reference: score, speed, cost of a solved task, and all that where it is used.

Nothing is measured here. A cost is seconds of the machine, as in `gate.Cost`: tokens of an answer × seconds of a token
in llama.cpp, where many write at once; the reading of prompts is left out. A solved task costs that over the score.
Of routed requests, the reference has those on which the router thinks that it gains most, and the other model the rest;
on the rest the two are held against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from distill.line_up.draws import Draws, Floats, Speed, estimate, ratio, speed, token_s_drawn
from distill.line_up.entrants import Ready
from distill.line_up.exam import Answered
from distill.line_up.race import Round
from distill.paired import NUM_DRAWS, Estimate, Pair, kept
from train.seeds import seed_of

Gains = Mapping[str, Sequence[float]]
"""Domain → what the router thinks that the stronger arm gains on each item, in probability of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was measured, models by label; the first is the reference."""

    entrants: Sequence[Ready]
    answers: Mapping[str, Mapping[str, Answered]]
    """Label → domain → answers; the same domains and items for all."""
    rounds: Mapping[str, Sequence[Round]]
    """By engine; those that were not tried are absent."""
    gains: Gains | None = None
    """None without a router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """On the requests that the router leaves to a model, when the reference gets a share of all."""

    share: float
    """That goes to the reference."""
    score: Estimate | None
    """Mean verified, over requests."""
    kept: Estimate | None
    """Of the reference's score on the same requests; None where that is 0."""
    cost_share: Estimate | None
    """Of what the reference would cost on the same requests; None where rates were not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One line of the table."""

    label: str
    name: str
    sha256: str
    quantization: str
    size_bytes: int
    read_bytes: int
    """As `entrants.Ready`."""
    score: Estimate
    """Macro mean over domains."""
    kept: Estimate | None
    """Of the reference's; None where that solves nothing."""
    differences: Mapping[str, Estimate]
    """Domain → this − reference."""
    mean_tokens: float
    """Of an answer, macro."""
    num_errors: int
    """Items without a verdict."""
    speeds: Mapping[str, Mapping[int, Speed]]
    """Engine → streams → speed."""
    solved_s: Estimate | None = None
    """Seconds of the machine for a task that is solved; None where rates were not taken."""
    cost_share: Estimate | None = None
    """Of the reference's `solved_s`."""
    routed: Sequence[Routed] = field(default_factory=tuple)


COST_ENGINE: Final = "llama.cpp"


def standings(
    measured: Measured,
    *,
    streams: int,
    shares: Sequence[float] = (),
    seed: int = 0,
    num_draws: int = NUM_DRAWS,
) -> tuple[Standing, ...]:
    """A line a model, in order.

    Args:
        measured: of all.
        streams: at which a token's cost is taken; at the most that was timed below it where that was not.
        shares: that the router gives to the reference.
        seed: of the draws.
        num_draws: of the bootstrap.
    """
    first = measured.entrants[0].label
    sizes = {domain: len(each.scores) for domain, each in measured.answers[first].items()}
    draws = Draws.of(sizes, seed=seed_of(seed, "line-up"), num_draws=num_draws)
    token_s = _token_s(measured, streams, seed=seed_of(seed, "rounds"), num_draws=num_draws)
    return tuple(
        _standing(each, measured, draws, token_s, shares, seed=seed, num_draws=num_draws)
        for each in measured.entrants
    )


def _standing(
    who: Ready,
    measured: Measured,
    draws: Draws,
    token_s: Mapping[str, Floats],
    shares: Sequence[float],
    *,
    seed: int,
    num_draws: int,
) -> Standing:
    first = measured.entrants[0].label
    mine, theirs = measured.answers[who.label], measured.answers[first]
    pairs = {domain: Pair(each.scores, theirs[domain].scores) for domain, each in mine.items()}
    found = kept(pairs, seed=seed_of(seed, "retention"), num_draws=num_draws)
    scores = draws.macro({domain: each.scores for domain, each in mine.items()})
    score = estimate(scores)
    assert score is not None, "scores are numbers"
    solved = _solved_s(who.label, measured, draws, token_s)
    of_first = _solved_s(first, measured, draws, token_s)
    return Standing(
        label=who.label,
        name=who.name,
        sha256=who.sha256,
        quantization=who.quantization,
        size_bytes=who.size_bytes,
        read_bytes=who.read_bytes,
        score=score,
        kept=found.retention,
        differences=found.differences,
        mean_tokens=float(draws.macro({domain: each.num_tokens for domain, each in mine.items()})[0]),
        num_errors=sum(each.num_errors for each in mine.values()),
        speeds={engine: _speeds(rounds, who.label, first) for engine, rounds in measured.rounds.items()},
        solved_s=None if solved is None else estimate(solved),
        cost_share=None if solved is None or of_first is None else estimate(ratio(solved, of_first)),
        routed=_routed(who.label, measured, draws, token_s, shares),
    )


def _speeds(rounds: Sequence[Round], label: str, first: str) -> dict[int, Speed]:
    return {
        num: speed([each[label][num] for each in rounds], [each[first][num] for each in rounds])
        for num in rounds[0][label]
    }


def _token_s(measured: Measured, streams: int, *, seed: int, num_draws: int) -> dict[str, Floats]:
    """Label → seconds a token, (1 + draws,), rounds being drawn alike for all; empty where rates were not taken."""
    rounds = measured.rounds.get(COST_ENGINE, ())
    if not rounds:
        return {}
    chosen = np.random.default_rng(seed).integers(len(rounds), size=(num_draws, len(rounds)))
    found = {}
    for who in measured.entrants:
        timed = rounds[0][who.label]
        at = streams if streams in timed else max(timed)
        found[who.label] = token_s_drawn([each[who.label][at] for each in rounds], chosen)
    return found


def _solved_s(label: str, measured: Measured, draws: Draws, token_s: Mapping[str, Floats]) -> Floats | None:
    if label not in token_s:
        return None
    of_domain = measured.answers[label]
    num_tokens = draws.macro({domain: each.num_tokens for domain, each in of_domain.items()})
    score = draws.macro({domain: each.scores for domain, each in of_domain.items()})
    return ratio(token_s[label] * num_tokens, score)


def _routed(
    label: str, measured: Measured, draws: Draws, token_s: Mapping[str, Floats], shares: Sequence[float]
) -> tuple[Routed, ...]:
    first = measured.entrants[0].label
    if measured.gains is None or label == first:
        return ()
    mine, theirs = measured.answers[label], measured.answers[first]
    found = []
    for share in shares:
        left = left_to_weaker(measured.gains, share)

        def total(of_domain: Mapping[str, Sequence[float]], left: Mapping[str, Floats] = left) -> Floats:
            return draws.total({domain: left[domain] * np.asarray(of_domain[domain]) for domain in left})

        ours = total({domain: each.scores for domain, each in mine.items()})
        reference = total({domain: each.scores for domain, each in theirs.items()})
        cost = None
        if token_s:
            tokens = total({domain: each.num_tokens for domain, each in mine.items()})
            of_reference = total({domain: each.num_tokens for domain, each in theirs.items()})
            cost = estimate(ratio(tokens * token_s[label], of_reference * token_s[first]))
        found.append(
            Routed(
                share=share,
                score=estimate(ratio(ours, draws.total(left))),
                kept=estimate(np.where(reference > 0, ratio(ours, reference), np.nan)),
                cost_share=cost,
            )
        )
    return tuple(found)


def left_to_weaker(gains: Gains, share: float) -> dict[str, Floats]:
    """Domain → how much of each item the weaker arm answers, when a share goes to the stronger by falling gain.

    Of items of equal gain at the border each goes in part.
    """
    whole = np.concatenate([np.asarray(each, np.float64) for each in gains.values()])
    to_stronger = share * len(whole)
    going = np.zeros(len(whole))
    for gain in np.unique(whole)[::-1]:
        alike = whole == gain
        num = int(alike.sum())
        going[alike] = min(1.0, max(0.0, to_stronger / num))
        to_stronger -= num
    edges = np.cumsum([len(each) for each in gains.values()])[:-1]
    return dict(zip(gains, np.split(1 - going, edges), strict=True))
