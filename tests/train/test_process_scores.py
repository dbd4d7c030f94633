"""How episodes went, by hand: one store, a key to be set, and ways to go about it."""

from __future__ import annotations

import pytest

from tests.train.rollouts.test_turns import call, played
from train.domains import catalog
from train.domains.base import Environment, Item
from train.process_scores import Course, ProcessScore
from train.rollouts.rollout import StopReason
from train.tools.replay import performed
from train.transcript import ToolCall, Transcript

GET = ToolCall("store_get", '{"key": "a"}')
SET = ToolCall("store_set", '{"key": "a", "value": "2"}')
ITEM = Item(
    domain="d",
    level=0,
    seed=0,
    index=0,
    prompt="go",
    environment=Environment({"store": {"entries": {"a": "1"}}}, max_calls=4),
)
assert ITEM.environment is not None
CHANGING = performed(ITEM.environment, ((GET,), (SET,)), "done")
READING = performed(ITEM.environment, ((GET,),), "1")
UNKNOWN = call("store_open", key="a")


def course(*turns: str | tuple[str, StopReason], reference: Transcript = CHANGING, **how: bool) -> Course:
    """Of an episode that says these turns."""
    said = iter(turns)
    episode, _ = played(lambda _: next(said), ITEM)
    is_ended = episode.rollout.stop is StopReason.END
    return Course.of(
        ITEM, reference, episode.transcript, is_right=how.get("is_right", True), is_ended=is_ended
    )


def get() -> str:
    return call("store_get", key="a")


def set_to(value: str) -> str:
    return call("store_set", key="a", value=value)


def test_the_references_way() -> None:
    """As many calls, no error, stopped in time."""
    assert course(get(), set_to("2"), "done") == Course(
        num_calls=2, num_reference_calls=2, is_right=True, has_error=False, is_stopped=True
    )


def test_errors() -> None:
    """A call that fails is one, and a turn that is not in the form and makes no call; a text in the answer is none."""
    assert course(UNKNOWN, set_to("2"), "done").has_error
    malformed = course("<tool_call>[oops", set_to("2"), "done")
    assert (malformed.has_error, malformed.num_calls, malformed.is_stopped) == (True, 1, True)
    assert not course(get(), "there is no function").has_error


def test_stopped_in_time() -> None:
    """Neither without an answer, nor at a limit, nor beyond the budget, nor when calls go on behind the goal."""
    assert course(set_to("2"), "done").is_stopped
    assert not course(set_to("2"), " ").is_stopped
    assert not course(set_to("2"), ("do", StopReason.LENGTH)).is_stopped
    spent = course(get(), get(), get(), get(), get())
    assert (spent.num_calls, spent.is_stopped, spent.has_error) == (5, False, False), "refused, no error"
    both = set_to("2").replace("}]", '}, {"name": "store_get", "arguments": {"key": "a"}}]')
    assert not course(get(), get(), get(), both, "done").is_stopped, "a call too many"
    assert not course(get(), set_to("2"), get(), "done").is_stopped
    assert not course(get(), set_to("2"), set_to("3"), "done").is_stopped


def test_where_the_goal_cannot_be_seen() -> None:
    """Who only reads, or never comes to the goal, stopped in time by ending; the reference's own last look is free."""
    assert course(get(), get(), "1", reference=READING).is_stopped
    assert course(set_to("3"), get(), "done", is_right=False).is_stopped
    assert ITEM.environment is not None
    looking = performed(ITEM.environment, ((SET,), (GET,)), "2")
    assert course(set_to("2"), get(), "2", reference=looking).is_stopped
    assert not course(set_to("2"), get(), get(), "2", reference=looking).is_stopped


def test_scores_by_hand() -> None:
    """Four episodes, of which three passed, two had an error, and three stopped in time."""
    courses = [
        course(get(), set_to("2"), "done"),  # 2 of 2
        course(set_to("2"), "done"),  # 1, fewer than the reference
        course(UNKNOWN, get(), get(), set_to("2"), "done"),  # 2 of 4
        course(UNKNOWN, get(), get(), get(), get(), is_right=False),  # five, the last refused
    ]
    assert ProcessScore.of(courses) == ProcessScore(
        num_episodes=4,
        success_share=0.75,
        mean_calls=3.0,
        mean_reference_calls=2.0,
        efficiency=pytest.approx((1 + 1 + 0.5) / 3),
        num_with_error=2,
        recovered_share=0.5,
        stopped_share=0.75,
    )


def test_what_there_is_not_is_none() -> None:
    """No success has no efficiency, no error no recovery; a call where none is needed is worth nothing."""
    failed = ProcessScore.of([course("no", is_right=False)])
    assert (failed.efficiency, failed.recovered_share, failed.mean_calls) == (None, None, 0.0)
    assert ITEM.environment is not None
    nothing_to_do = performed(ITEM.environment, (), "1")
    assert course(get(), "1", reference=nothing_to_do).efficiency == 0.0
    assert course("1", reference=nothing_to_do).efficiency == 1.0


@pytest.mark.parametrize(
    "name", ["tool_fallback", "tool_service", "tool_stop_in_time", "geometry_build", "tool_board"]
)
def test_references_are_beyond_reproach(name: str) -> None:
    """Whatever a domain lets be left as anything: its own way is right, efficient and stopped in time."""
    domain = catalog.get(name)
    for index in range(3):
        item = domain.item(7, index, 1)
        reference = domain.reference(item)
        mine = Course.of(item, reference, reference, is_right=True, is_ended=True)
        assert (mine.is_stopped, mine.has_error, mine.efficiency) == (True, False, 1.0)
