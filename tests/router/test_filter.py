"""The filter: what excludes an arm, in which order, and what the client's `model` may name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.arms import Arm, Capabilities, Effort, Price
from router.decision import Exclusion
from router.filter import UnknownModelError, exclude, resolve_model
from router.request import RequestView

FAST = Arm(
    name="fast",
    tier="fast",
    price=Price(input=0.2, output=0.8),
    capabilities=Capabilities(context_tokens=2048),
    strength=0,
)
FULL = Arm(
    name="full",
    tier="full",
    price=Price(input=1.0, output=4.0),
    capabilities=Capabilities(context_tokens=8192),
    strength=1,
)
THINK = replace(FULL, name="full-think", effort=Effort.MEDIUM)
ARMS = (FAST, FULL, THINK)
HI = RequestView(endpoint="chat", model="auto", turns=("hi",), num_chars=2)


def with_capability(**change: Any) -> tuple[Arm, Arm]:
    """Fast as it is, and full with the capability taken away."""
    return FAST, replace(FULL, capabilities=replace(FULL.capabilities, **change))


def test_plain_request_excludes_nobody() -> None:
    """A short text request can go to every arm."""
    assert exclude(HI, ARMS) == {}


@pytest.mark.parametrize(
    ("need", "lacking", "expected"),
    [
        ({"endpoint": "embeddings"}, {}, Exclusion.ENDPOINT),
        (
            {"modalities": frozenset({"text", "image"})},
            {"modalities": frozenset({"text"})},
            Exclusion.MODALITY,
        ),
        ({"num_tools": 1}, {"tools": False}, Exclusion.TOOLS),
        ({"is_tool_loop": True}, {"tools": False}, Exclusion.TOOLS),
        ({"needs_schema": True}, {"structured_output": False}, Exclusion.SCHEMA),
        (
            {"parameters": frozenset({"logit_bias"})},
            {"unsupported_parameters": {"logit_bias"}},
            Exclusion.PARAMETER,
        ),
        ({"needs_logprobs": True}, {"logprobs": False}, Exclusion.LOGPROBS),
    ],
)
def test_missing_capability_excludes(
    need: dict[str, Any], lacking: dict[str, Any], expected: Exclusion
) -> None:
    """An arm that lacks what the request needs is excluded for that, and only when the request needs it."""
    _, full = with_capability(**lacking)
    assert exclude(replace(HI, **need), (full,)) == {"full": expected}
    assert exclude(HI, (full,)) == {}


def test_context_excludes_the_short_window() -> None:
    """A prompt that is clearly longer than the fast tier's window leaves the full tier."""
    view = replace(HI, num_chars=4 * 4000)
    assert exclude(view, ARMS) == {"fast": Exclusion.CONTEXT}


def test_context_forgives_a_rough_estimate() -> None:
    """A prompt estimated a quarter over the window is not excluded: the engine, which counts, is the
    judge."""
    view = replace(HI, num_chars=4 * 2500)
    assert view.num_input_tokens > FAST.capabilities.context_tokens
    assert exclude(view, ARMS) == {}


def test_max_output_counts_against_the_window() -> None:
    """Room for the longest answer is asked of a window, exactly: 2048 − 0.8 · 16.5 tokens are left for it."""
    assert exclude(replace(HI, max_output_tokens=2034), ARMS) == {}
    assert exclude(replace(HI, max_output_tokens=2036), ARMS) == {"fast": Exclusion.CONTEXT}


def test_huge_max_output_is_not_refused() -> None:
    """Where no window holds the longest answer, those that hold the prompt stay."""
    assert exclude(replace(HI, max_output_tokens=1_000_000), ARMS) == {}


def test_prompt_longer_than_every_window() -> None:
    """A prompt that nobody can read excludes everyone."""
    assert set(exclude(replace(HI, num_chars=10**6), ARMS).values()) == {Exclusion.CONTEXT}


def test_embeddings_stay_in_one_vector_space() -> None:
    """`auto` asks the cheapest tier that has embeddings, up or down, since two models' vectors don't
    compare."""
    embed = frozenset({"chat", "embeddings"})
    fast = replace(FAST, capabilities=replace(FAST.capabilities, endpoints=embed), is_available=False)
    full = replace(FULL, capabilities=replace(FULL.capabilities, endpoints=embed))
    view = replace(HI, endpoint="embeddings")
    assert exclude(view, (fast, full)) == {"fast": Exclusion.UNAVAILABLE, "full": Exclusion.ENDPOINT}
    assert exclude(replace(view, model="full"), (fast, full)) == {"fast": Exclusion.CLIENT}


def test_effort_above_the_clients_bound() -> None:
    """`reasoning_effort` = low leaves the arms up to it."""
    assert exclude(replace(HI, max_effort=Effort.LOW), ARMS) == {"full-think": Exclusion.EFFORT}
    assert exclude(replace(HI, max_effort=Effort.MEDIUM), ARMS) == {}


def test_unavailable_comes_last() -> None:
    """An arm that is down and incapable is excluded as incapable, so UNAVAILABLE means it could have
    answered."""
    down = replace(FULL, is_available=False)
    assert exclude(HI, (down,)) == {"full": Exclusion.UNAVAILABLE}
    assert exclude(replace(HI, endpoint="embeddings"), (down,)) == {"full": Exclusion.ENDPOINT}


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"model": "full"}, {"full"}),
        ({"model": "full-think"}, {"full-think"}),
        ({"service_tier": "flex"}, {"fast"}),
        ({"service_tier": "priority"}, {"full", "full-think"}),
        ({"service_tier": "default"}, {"fast", "full", "full-think"}),
        ({"wanted_arm": "fast", "model": "full", "service_tier": "priority"}, {"fast"}),
        ({"model": "fast", "service_tier": "priority"}, {"fast"}),
        ({"wanted_arm": "nobody"}, set()),
    ],
)
def test_clients_choice(choice: dict[str, str], left: set[str]) -> None:
    """The header beats `model`, which beats `service_tier`; what is not chosen is excluded as the client's
    doing."""
    excluded = exclude(replace(HI, **choice), ARMS)
    assert {arm.name for arm in ARMS} - set(excluded) == left
    assert set(excluded.values()) <= {Exclusion.CLIENT}


def test_tier_with_several_arms() -> None:
    """A `model` that is a tier's name and no arm's leaves all arms of that tier."""
    arms = (FAST, replace(FULL, name="full-plain"), THINK)
    assert exclude(replace(HI, model="full"), arms) == {"fast": Exclusion.CLIENT}


def test_chosen_arm_that_cannot() -> None:
    """A client's choice does not overrule what the arm lacks."""
    arms = with_capability(tools=False)
    excluded = exclude(replace(HI, model="full", num_tools=2), arms)
    assert excluded == {"fast": Exclusion.CLIENT, "full": Exclusion.TOOLS}


@pytest.mark.parametrize(
    ("model", "selected"),
    [("auto", "auto"), ("fast", "fast"), ("full-think", "full-think"), ("smollm2-q8", "full")],
)
def test_resolve_model(model: str, selected: str) -> None:
    """`auto`, arms and tiers select themselves, a concrete id its tier."""
    assert resolve_model(model, ARMS, {"smollm2-q8": "full", "smollm2-q4": "fast"}) == selected


@pytest.mark.parametrize(("model", "nearest"), [("ful", "full"), ("smollm2_q8", "smollm2-q8"), ("gpt", None)])
def test_unknown_model_names_the_nearest(model: str, nearest: str | None) -> None:
    """A name that is none of these is refused with the nearest one, where there is one."""
    with pytest.raises(UnknownModelError) as caught:
        resolve_model(model, ARMS, {"smollm2-q8": "full"})
    assert caught.value.nearest == nearest
    assert model in str(caught.value)
