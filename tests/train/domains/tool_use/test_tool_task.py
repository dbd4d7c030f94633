"""Tool tasks: the state that calls leave decides, words do not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from train.domains import catalog
from train.domains.base import Environment, Family, Item, Verdict
from train.domains.tool_use.conduct import conduct
from train.domains.tool_use.task import calling
from train.tools.replay import performed, replayed
from train.transcript import Message, ToolCall, Transcript

DOMAINS = catalog.by_family()[Family.TOOL_USE]


def transcript(item: Item, calls: list[ToolCall], answer: str) -> Transcript:
    """One who makes these calls, whether they fail or not."""
    assert item.environment is not None
    messages = (Message("assistant", "", tuple(calls)),) if calls else ()
    said = Transcript((*messages, Message("assistant", answer)))
    return Transcript(said.messages, replayed(item.environment, said).state)


def reference_calls(item: Item) -> list[ToolCall]:
    turns: Any = item.data["turns"]
    return [ToolCall(*call) for turn in turns for call in turn]


def verdict(item: Item, calls: list[ToolCall], answer: str) -> Verdict:
    return catalog.get(item.domain).verify(item, transcript(item, calls, answer))


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_a_state_that_is_only_claimed_is_worth_nothing(domain: Any) -> None:
    """The right answer with the right state and without the calls that lead to it earns nothing."""
    for level in range(domain.num_levels):
        item = domain.item(3, 0, level)
        reference = domain.reference(item)
        claimed = Transcript((Message("assistant", item.answer),), reference.state)
        if reference.num_calls and reference.state != replayed(item.environment, Transcript(())).state:
            assert domain.verify(item, claimed).score == 0.0
        tampered = Transcript(reference.messages, {**reference.state, "store": {"entries": {"x": "y"}}})
        assert domain.verify(item, tampered).score == 0.0


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_failed_calls_cost_and_harm_nothing(domain: Any) -> None:
    """Two calls that fail before the reference's leave the result right, worth less, and are told in the parts."""
    item = domain.item(3, 1, 1)
    wrong = [ToolCall("nothing_at_all", "{}"), ToolCall("", "[")]
    found = verdict(item, wrong + reference_calls(item), item.answer)
    assert found.passed
    assert found.score == pytest.approx(1.0 - 2 * domain.price)
    assert found.parts["recovery"] == (0.5 if reference_calls(item) else 0.0)
    assert found.parts["steps"] == 1.0
    assert found.parts["efficiency"] < 1.0


def test_the_state_without_the_answer_is_worth_half_where_it_was_changed() -> None:
    """Half for the work, nothing for having left everything as it should be left anyway."""
    changed = catalog.get("tool_store").item(0, 0, 0)
    assert verdict(changed, reference_calls(changed), "I am done").score == 0.5
    assert verdict(changed, reference_calls(changed), "").score == 0.5
    assert verdict(changed, [], changed.answer).score == 0.0
    looked_up = catalog.get("tool_sql").item(0, 0, 0)
    assert verdict(looked_up, reference_calls(looked_up), "I am done").score == 0.0


def test_a_needless_call_costs_a_quarter() -> None:
    """Right without a call is 1, right with one .75, and never less than half."""
    item = catalog.get("tool_none_needed").item(0, 0, 0)
    look = calling("store_list")
    assert [verdict(item, [look] * num, item.answer).score for num in (0, 1, 2, 4)] == [1.0, 0.75, 0.5, 0.5]


def test_who_does_not_stop_in_time_loses_a_tenth_a_call() -> None:
    """One note too many is dearer than none; the way itself is free."""
    item = catalog.get("tool_stop_in_time").item(0, 0, 1)
    calls = reference_calls(item)
    assert verdict(item, [*calls, calls[0]], item.answer).score == pytest.approx(0.9)


def test_an_impossible_request_is_declined_or_nothing_is_paid() -> None:
    """To order what there is, or to claim an order, is not to decline."""
    domain = catalog.get("tool_decline")
    items = [domain.item(0, index, 1) for index in range(20)]
    impossible = [item for item in items if not item.answer.startswith("ordered")]
    assert 5 <= len(impossible) <= 15
    for item in impossible:
        changes = [call for call in reference_calls(item) if "POST" in call.arguments]
        assert not changes
        order = calling(
            "service_request",
            method="POST",
            path="/orders",
            body={
                "user_id": int(next(iter(item.environment.tools["service"]["users"]))),  # type: ignore[union-attr, index]
                "sku": next(iter(item.environment.tools["service"]["products"])),  # type: ignore[union-attr, index]
                "quantity": 1,
            },
        )
        assert verdict(item, [order], item.answer).score == 0.0
        assert verdict(item, [], "impossible").score == 0.0


def test_any_plan_in_time_will_do_on_the_board() -> None:
    """The state of the board is judged by what it must be, not by the reference's own plan."""
    domain = catalog.get("tool_board")
    item = domain.item(0, 0, 0)
    calls = reference_calls(item)
    workers: Any = item.environment.tools["board"]["workers"]  # type: ignore[union-attr]
    swap = dict(zip(workers, reversed(workers), strict=True))
    swapped = [
        ToolCall(call.name, json.dumps({**arguments, "worker": swap[arguments["worker"]]}))
        if (arguments := json.loads(call.arguments))
        else call
        for call in calls
    ]
    assert verdict(item, swapped, "done").score == 1.0
    assert verdict(item, swapped[:-1], "done").score == 0.0


def test_conduct_by_hand() -> None:
    """Parts of four calls: right, failed, right after it, needless; and no answer."""
    environment = Environment({"store": {"entries": {"a": "1", "b": "2"}}}, max_calls=9)
    calls = (
        ToolCall("store_get", '{"key":"a"}'),
        calling("store_get", key="missing"),
        calling("store_get", key="b"),
        calling("store_list"),
    )
    said = Transcript((Message("assistant", "", calls),))
    expected = [
        ("store_get", '{"key": "a"}'),
        ("store_get", '{"key": "b"}'),
        ("store_delete", '{"key": "b"}'),
    ]
    assert conduct(said, replayed(environment, said), expected) == {
        "steps": 2 / 3,
        "efficiency": 4 / 5,
        "recovery": 1.0,
        "stopped": 0.0,
    }


def test_a_reference_that_fails_is_an_error_of_the_generator() -> None:
    """Whoever draws a task with a wrong call hears of it at once."""
    environment = Environment({"store": {"entries": {}}}, max_calls=2)
    with pytest.raises(ValueError, match="there is no key 'a'"):
        performed(environment, ((calling("store_get", key="a"),),), "x")


def test_the_budget_is_part_of_the_verdict() -> None:
    """Calls beyond the budget are refused in the replay as they were in the rollout."""
    item = catalog.get("tool_store").item(0, 0, 0)
    assert item.environment is not None
    tight = replace(item, environment=replace(item.environment, max_calls=4))
    assert len(reference_calls(item)) == 4 or verdict(tight, reference_calls(item), item.answer).score == 0.0
    waste = [calling("store_list")] * 4
    assert verdict(tight, waste + reference_calls(item), item.answer).score == 0.0
