"""What the gateway remembers between requests: of whom, for how long, and how much of it."""

from __future__ import annotations

from dataclasses import replace

from router.arms import Arm, Capabilities, Price
from router.decision import Decision
from router.difficulty import StructuralHeuristic
from router.policy import RoutingPolicy
from router.pricing import Pricing
from router.request import RequestView
from router.session import NOTHING
from serving.gateway.recent import Recent
from serving.gateway.session import LOOP_TTL_S, Sessions

HARD = "Prove that the square root of 2 is irrational, then derive a general theorem. Show each step."
TURN = RequestView(
    endpoint="chat", model="auto", turns=(HARD,), num_chars=len(HARD), session="s", num_tools=1
)
LOOP = replace(TURN, is_tool_loop=True, num_chars=5000)
ARMS = tuple(
    Arm(name=name, tier=name, price=Price(input=price, output=price), capabilities=Capabilities(context_tokens=8192),
        strength=strength)
    for strength, (name, price) in enumerate((("fast", 1.0), ("full", 5.0)))
)  # fmt: skip


def decision(view: RequestView = TURN) -> Decision:
    return RoutingPolicy(StructuralHeuristic()).decide(view, ARMS, Pricing(price_of_compute=0.0))


def test_a_turn_is_remembered_for_its_session_and_its_key() -> None:
    """Neither another session nor the same name under another key has anything of it; a request without one neither."""
    sessions = Sessions()
    sessions.remember_turn(TURN, "app", decision(), 0.0)
    recalled = sessions.recall(TURN, "app", 1.0)
    assert recalled.probabilities == {c.arm: c.success_probability for c in decision().candidates}
    assert recalled.weight > 0.5
    for view, key in (
        (TURN, "other"),
        (TURN, None),
        (replace(TURN, session="t"), "app"),
        (replace(TURN, session=None), "app"),
    ):
        assert sessions.recall(view, key, 1.0) is NOTHING


def test_a_tool_loop_is_known_by_what_the_user_said() -> None:
    """With or without a session, its steps recall the arm that began it; the user's next turn does not."""
    for view in (TURN, replace(TURN, session=None)):
        sessions = Sessions()
        sessions.remember_arm(view, "app", "full", 0.0)
        loop = replace(view, is_tool_loop=True, num_chars=9999)
        assert sessions.recall(loop, "app", 5.0).pinned_arm == "full"
        assert sessions.recall(loop, "other", 5.0).pinned_arm is None
        assert sessions.recall(replace(loop, turns=(HARD, "and now?")), "app", 5.0).pinned_arm is None
        assert sessions.recall(replace(loop, is_tool_loop=False), "app", 5.0).pinned_arm is None
        assert sessions.recall(loop, "app", LOOP_TTL_S + 1).pinned_arm is None


def test_the_arm_that_took_over_is_the_one_to_stay_on() -> None:
    """Where the arm of a loop failed and another answered, the loop goes on there."""
    sessions = Sessions()
    sessions.remember_arm(TURN, None, "fast", 0.0)
    sessions.remember_arm(LOOP, None, "full", 1.0)
    assert sessions.recall(LOOP, None, 2.0).pinned_arm == "full"


def test_a_step_of_a_loop_is_no_turn() -> None:
    """The memory of the turn does not fade while tools run, or texts of the same session are embedded."""
    sessions = Sessions()
    sessions.remember_turn(TURN, None, decision(), 0.0)
    embedding = replace(TURN, endpoint="embeddings", turns=("ok",))
    assert sessions.recall(embedding, None, 0.0) is NOTHING
    sessions.remember_turn(embedding, None, decision(replace(TURN, turns=("ok",))), 0.0)
    for _ in range(5):
        sessions.remember_turn(LOOP, None, decision(replace(LOOP, turns=("ok",))), 0.0)
    assert (
        sessions.recall(TURN, None, 0.0).probabilities["fast"] == decision().candidates[0].success_probability
    )


def test_without_tools_no_loop_is_remembered() -> None:
    """A request that cannot begin a loop costs no memory."""
    sessions = Sessions()
    sessions.remember_arm(replace(TURN, num_tools=0), None, "full", 0.0)
    assert sessions.recall(LOOP, None, 0.0).pinned_arm is None


def test_what_is_remembered_is_bounded() -> None:
    """The entry used longest ago goes first; getting one is using it."""
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c"), len(recent)) == (1, None, 3, 2)
    sessions = Sessions(max_remembered=10)
    for i in range(1000):
        sessions.remember_turn(replace(TURN, session=str(i)), None, decision(), 0.0)
    assert sessions.recall(replace(TURN, session="0"), None, 0.0) is NOTHING
    assert sessions.recall(replace(TURN, session="999"), None, 0.0) is not NOTHING
