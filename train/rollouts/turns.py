"""Rollouts of many turns: the policy speaks, its calls are done, it reads the results, until it answers.

All episodes go forward together, a turn at a time, so that a sampler always has a full batch. Tokens are the truth:
what was sampled is never rendered again, results come as given tokens between two sampled spans, and a rollout's
tokens are exactly those that the sampler was asked to continue. An episode ends with an answer (a turn without calls),
when the budget of calls was spent before the turn, or at a limit of length or time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from train.codec import Codec
from train.domains.base import Item
from train.rollouts.rollout import Rollout, Sampler, SampleRequest, Sampling, Span, StopReason
from train.rollouts.tool_calls import MalformedCallError, read_turn
from train.seeds import seed_of
from train.tools.toolset import BoundedToolset
from train.transcript import Message, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """Where an episode ends without an answer, beside the budget of calls and the tokens of one turn."""

    max_tokens: int
    """Of a rollout, given and sampled; no turn is begun beyond."""
    max_seconds: float = float("inf")
    """For all turns; no turn is begun after. The time of one turn is its sampler's to keep."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What became of one seed."""

    rollout: Rollout
    transcript: Transcript


def play(
    tasks: Sequence[tuple[Item, Sequence[int]]],
    *,
    sampler: Sampler,
    codec: Codec,
    sampling: Sampling,
    limits: TurnLimits,
    max_tokens: Callable[[Item], int] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[list[Episode]]:
    """An episode for each seed of each item, in order.

    An episode depends on the weights, its item, the sampling, the limits and its seed, and on no other episode. Items
    without tools take one turn. Episodes of one item share their first span.

    Args:
        max_tokens: of one turn of an item; the sampling's where None.
        clock: monotonic, in seconds.
    """
    deadline = clock() + limits.max_seconds
    played = [
        _begun(item, seeds, codec, max_tokens(item) if max_tokens is not None else None)
        for item, seeds in tasks
    ]
    active = [episode for row in played for episode in row]
    while active:
        for episode in active:
            if clock() >= deadline:
                episode.end(StopReason.DEADLINE)
            elif len(episode.context) >= limits.max_tokens:
                episode.end(StopReason.LENGTH)
        active = [episode for episode in active if not episode.is_over]
        for episode, (span, stop) in _sampled(active, sampler, sampling):
            episode.take(span, stop)
        active = [episode for episode in active if not episode.is_over]
    return [[episode.result() for episode in row] for row in played]


class _Running:
    """An episode under way."""

    def __init__(self, item: Item, seed: int, prompt: Span, codec: Codec, max_tokens: int | None) -> None:
        self.context = prompt.token_ids
        self.max_tokens = max_tokens
        self.is_over = False
        self._seed = seed
        self._codec = codec
        self._tools = BoundedToolset.of(item.environment) if item.environment is not None else None
        self._spans = [prompt]
        self._messages: list[Message] = []
        self._num_turns = 0
        self._stop = StopReason.END

    @property
    def turn_seed(self) -> int:
        """Of the next turn; the first has the episode's own, as an answer of one turn would."""
        return seed_of(self._seed, "turn", self._num_turns) if self._num_turns else self._seed

    def end(self, stop: StopReason) -> None:
        """Go no further."""
        self._stop = stop
        self.is_over = True

    def take(self, span: Span, stop: StopReason) -> None:
        """The policy has spoken."""
        given = self.context[sum(len(each.token_ids) for each in self._spans) :]
        self._spans += [Span(given), span] if given else [span]
        self._num_turns += 1
        text = self._codec.text(span.token_ids)
        if stop is not StopReason.END or self._tools is None:
            self._messages.append(Message("assistant", text))
            self.end(stop)
            return
        was_spent = self._tools.is_spent or self._num_turns > self._tools.max_calls
        results = self._done(text, self._tools)
        if not results or was_spent:
            self.end(stop)
        else:
            self.context += span.token_ids + self._codec.reply(results)

    def result(self) -> Episode:
        """What there is in the end. Results that the policy did not come to read are in the transcript alone."""
        state = self._tools.state() if self._tools is not None else {}
        return Episode(Rollout(tuple(self._spans), self._stop), Transcript(tuple(self._messages), state))

    def _done(self, text: str, tools: BoundedToolset) -> list[Message]:
        """Do what a turn asks for, and note it; the results that the policy is to read, none where it answered."""
        try:
            turn = read_turn(text)
        except MalformedCallError as error:
            results = [Message("tool", str(error))]
            self._messages += [Message("assistant", text), *results]
            return results
        results = [Message("tool", tools.call(call).content) for call in turn.calls]
        self._messages += [Message("assistant", turn.text, turn.calls), *results]
        return results


def _begun(item: Item, seeds: Sequence[int], codec: Codec, max_tokens: int | None) -> list[_Running]:
    tools = BoundedToolset.of(item.environment).schemas() if item.environment is not None else ()
    prompt = Span(codec.prompt([Message("user", item.prompt)], tools))
    return [_Running(item, seed, prompt, codec, max_tokens) for seed in seeds]


def _sampled(
    active: Sequence[_Running], sampler: Sampler, sampling: Sampling
) -> list[tuple[_Running, tuple[Span, StopReason]]]:
    """One turn of each; episodes that stand at the same tokens are one request, whose prompt is computed once."""
    if not active:
        return []
    alike: dict[tuple[tuple[int, ...], int | None], list[_Running]] = {}
    for episode in active:
        alike.setdefault((episode.context, episode.max_tokens), []).append(episode)
    requests = [
        SampleRequest(context, tuple(episode.turn_seed for episode in episodes), max_tokens)
        for (context, max_tokens), episodes in alike.items()
    ]
    drawn = sampler.sample(requests, sampling)
    return [
        (episode, answer)
        for episodes, answers in zip(alike.values(), drawn, strict=True)
        for episode, answer in zip(episodes, answers, strict=True)
    ]
