"""Rollouts of many turns: what is said, done and read, token for token."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from train.domains import catalog
from train.domains.base import Environment, Item
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.rollouts.turns import Episode, TurnLimits, play
from train.transcript import JsonValue, Message, Transcript

END = 0
SAMPLING = Sampling(max_tokens=10_000, stop_token_ids=(END,))
LIMITS = TurnLimits(max_tokens=100_000)


class CharacterTurns:
    """A `Codec` of code points."""

    end_token_id = END
    num_tokens = 0x110000

    def prompt(
        self, messages: Sequence[Message], tools: Sequence[dict[str, JsonValue]] = ()
    ) -> tuple[int, ...]:
        return self._ids(json.dumps([*tools]) + "".join(message.text for message in messages) + "\n")

    def answer(self, text: str) -> tuple[int, ...]:
        return (*self._ids(text), END)

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in token_ids if token != END)

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return self._ids("".join(f"<{message.text}>" for message in messages))

    @staticmethod
    def _ids(text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))


class Scripted:
    """A `Sampler` that says what a script makes of the text so far and the turn's number."""

    policy_version = 7

    def __init__(self, script: Callable[[str], str | tuple[str, StopReason]]) -> None:
        self.script = script
        self.asked: list[list[SampleRequest]] = []

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        self.asked.append([*requests])
        return [[self._said(request) for _ in request.seeds] for request in requests]

    def _said(self, request: SampleRequest) -> tuple[Span, StopReason]:
        said = self.script(CharacterTurns().text(request.token_ids))
        text, stop = said if isinstance(said, tuple) else (said, StopReason.END)
        ids = tuple(map(ord, text)) + ((END,) if stop is StopReason.END else ())
        return Span(ids, (-0.5,) * len(ids), self.policy_version), stop


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps([{'name': name, 'arguments': arguments}])}</tool_call>"


def store_item(max_calls: int = 5, prompt: str = "go") -> Item:
    return Item(
        domain="d",
        level=0,
        seed=0,
        index=0,
        prompt=prompt,
        environment=Environment({"store": {"entries": {"a": "1"}}}, max_calls),
    )


def played(
    script: Callable[[str], str | tuple[str, StopReason]], item: Item, **more: Any
) -> tuple[Episode, Scripted]:
    sampler = Scripted(script)
    limits = more.pop("limits", LIMITS)
    [[episode]] = play(
        [(item, [3])], sampler=sampler, codec=CharacterTurns(), sampling=SAMPLING, limits=limits, **more
    )
    return episode, sampler


def get_then_answer(so_far: str) -> str:
    return "It is 1." if "<1>" in so_far else "I look.\n" + call("store_get", key="a")


def test_an_episode_calls_reads_and_answers() -> None:
    """The transcript has both turns and the result between them; the rollout has the same as spans."""
    episode, sampler = played(get_then_answer, store_item())
    assert [(message.role, message.text) for message in episode.transcript.messages] == [
        ("assistant", "I look."),
        ("tool", "1"),
        ("assistant", "It is 1."),
    ]
    assert episode.transcript.answer == "It is 1."
    assert episode.transcript.state == {"store": {"entries": {"a": "1"}}}
    assert [span.is_sampled for span in episode.rollout.spans] == [False, True, False, True]
    assert CharacterTurns().text(episode.rollout.spans[2].token_ids) == "<1>"
    assert episode.rollout.stop is StopReason.END
    assert len(sampler.asked) == 2


def test_no_token_is_ever_made_twice() -> None:
    """What the sampler is asked to continue is, token for token, the rollout up to there: nothing is rendered again."""
    episode, sampler = played(get_then_answer, store_item())
    for turn, [request] in enumerate(sampler.asked):
        spans = episode.rollout.spans[: 2 * turn + 1]
        assert request.token_ids == tuple(token for span in spans for token in span.token_ids)


def test_every_turn_has_a_seed_of_its_own() -> None:
    """The first turn has the episode's seed, as a rollout of one turn would; later ones have others."""
    _, sampler = played(lambda so_far: call("store_get", key="a"), store_item(max_calls=3))
    seeds = [request.seeds[0] for [request] in sampler.asked]
    assert seeds[0] == 3
    assert len(set(seeds)) == len(seeds) == 4


def test_a_malformed_call_is_told_and_changes_nothing() -> None:
    """The policy reads what was wrong, and can do it right on the next turn."""

    def script(so_far: str) -> str:
        if "<set>" in so_far:
            return "done"
        return call("store_set", key="a", value="2") if "no call was made" in so_far else "<tool_call>[oops"

    episode, _ = played(script, store_item())
    assert episode.transcript.state == {"store": {"entries": {"a": "2"}}}
    assert episode.transcript.messages[0] == Message("assistant", "<tool_call>[oops")
    assert episode.transcript.messages[1].text.startswith("no call was made")
    assert episode.transcript.answer == "done"


def test_who_calls_on_is_stopped_by_the_budget() -> None:
    """After the last call there is one more turn to answer in; a call in it ends the episode without an answer."""
    episode, sampler = played(lambda so_far: call("store_get", key="a"), store_item(max_calls=2))
    assert len(sampler.asked) == 3
    assert episode.transcript.answer == ""
    assert "all 2 calls are spent" in episode.transcript.messages[-1].text
    assert episode.rollout.spans[-1].is_sampled


def test_who_never_gets_a_call_right_is_stopped_too() -> None:
    """Malformed turns are as many as the budget of calls allows, and one."""
    _, sampler = played(lambda so_far: "<tool_call>", store_item(max_calls=2))
    assert len(sampler.asked) == 3


def test_length_ends_an_episode_where_it_is() -> None:
    """A turn that was cut is not parsed; a context that is full begins no further turn."""
    cut, _ = played(
        lambda so_far: (call("store_set", key="a", value="2")[:-3], StopReason.LENGTH), store_item()
    )
    assert cut.rollout.stop is StopReason.LENGTH
    assert cut.transcript.state == {"store": {"entries": {"a": "1"}}}
    prompt = len(cut.rollout.spans[0].token_ids)
    full, sampler = played(get_then_answer, store_item(), limits=TurnLimits(max_tokens=prompt + 20))
    assert full.rollout.stop is StopReason.LENGTH
    assert len(sampler.asked) == 1
    assert full.rollout.spans[-1].is_sampled


def test_deadlines_end_an_episode_between_turns_and_within() -> None:
    """No turn is begun after the deadline; a sampler's own deadline ends the episode as well."""
    times = iter((0.0, 1.0, 11.0))
    late, sampler = played(
        get_then_answer,
        store_item(),
        limits=TurnLimits(max_tokens=10_000, max_seconds=10.0),
        clock=lambda: next(times),
    )
    assert late.rollout.stop is StopReason.DEADLINE
    assert len(sampler.asked) == 1
    within, _ = played(lambda so_far: ("I am", StopReason.DEADLINE), store_item())
    assert within.rollout.stop is StopReason.DEADLINE


def test_a_task_without_tools_takes_one_turn() -> None:
    """Text in the form of a call is then an answer like any other."""
    item = Item(domain="d", level=0, seed=0, index=0, prompt="go")
    episode, sampler = played(lambda so_far: call("store_get", key="a"), item)
    assert episode.transcript == Transcript((Message("assistant", call("store_get", key="a")),))
    assert len(sampler.asked) == 1


def test_many_environments_go_forward_in_one_batch() -> None:
    """One call of the sampler for each turn of all episodes; a group is one request while it stands at the same tokens,
    and shares its first span; states stay apart; an episode is the same alone."""

    def script(so_far: str) -> str:
        name = so_far.split("\n")[0][-1]
        if "<set>" in so_far:
            return "done"
        return call("store_set", key="a", value=name) if name != "z" else "nothing to do"

    sampler = Scripted(script)
    tasks = [(store_item(prompt=name), [1, 2]) for name in "xyz"]
    episodes = play(tasks, sampler=sampler, codec=CharacterTurns(), sampling=SAMPLING, limits=LIMITS)
    assert [len(requests) for requests in sampler.asked] == [3, 2]
    assert all(len(request.seeds) == 2 for request in sampler.asked[0])
    assert [row[0].transcript.state["store"] for row in episodes] == [
        {"entries": {"a": name}} for name in ("x", "y", "1")
    ]
    for row in episodes:
        assert row[0].rollout.spans[0] is row[1].rollout.spans[0]
    alone, _ = played(script, store_item(prompt="y"))
    assert alone.rollout == episodes[1][0].rollout


def test_every_turn_has_its_items_limit() -> None:
    """Also where two items stand at the same tokens: they are then two requests."""
    limits = {0: 8, 1: 24}
    items = [replace(store_item(), index=index) for index in limits]
    sampler = Scripted(get_then_answer)
    play(
        [(item, [1, 2]) for item in items],
        sampler=sampler,
        codec=CharacterTurns(),
        sampling=SAMPLING,
        limits=LIMITS,
        max_tokens=lambda item: limits[item.index],
    )
    assert [[request.max_tokens for request in requests] for requests in sampler.asked] == [[8, 24], [8, 24]]


def test_references_of_tool_domains_can_be_played() -> None:
    """A policy that makes the reference's calls comes to the reference's transcript, and it is right."""
    for name in ("tool_combined", "tool_calendar", "geometry_build", "knowledge_explore"):
        domain = catalog.get(name)
        item = domain.item(1, 0, 2)
        wanted = [message for message in domain.reference(item).messages if message.role == "assistant"]
        lines = iter(
            [
                "<tool_call>["
                + ", ".join(
                    f'{{"name": "{one.name}", "arguments": {one.arguments}}}' for one in message.calls
                )
                + "]</tool_call>"
                if message.calls
                else message.text
                for message in wanted
            ]
        )
        episode, _ = played(lambda so_far, lines=lines: next(lines), item)
        assert episode.transcript == domain.reference(item)
        assert domain.verify(item, episode.transcript).score == 1.0
