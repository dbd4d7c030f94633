"""The structural heuristic: what it promises of its order, and the two requests that anyone tries first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arms import Arm, Capabilities, Effort, Price
from router.difficulty import WEIGHTS, StructuralHeuristic, expected_output_tokens
from router.features import structure
from router.request import RequestView

MODEL = StructuralHeuristic()
WORDS = [
    "prove",
    "compute",
    "then",
    "must",
    "3",
    "17",
    "x = 2",
    "why",
    "cat",
    "?",
    "\n",
    "def f():",
    "| a | b |",
]
texts = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)


def arm(name: str, strength: int, effort: Effort = Effort.NONE) -> Arm:
    return Arm(
        name=name,
        tier=name,
        price=Price(input=1, output=4),
        capabilities=Capabilities(context_tokens=4096),
        strength=strength,
        effort=effort,
    )


def view(text: str) -> RequestView:
    return RequestView(endpoint="chat", model="auto", turns=(text,), num_chars=len(text))


def test_every_feature_has_a_weight_and_none_is_negative() -> None:
    """The weights cover the features exactly, and more of a feature never makes a request easier."""
    assert list(WEIGHTS) == list(structure(view("hi")))
    assert min(WEIGHTS.values()) > 0


@given(texts, st.integers(2, 5))
def test_stronger_is_likelier(text: str, num_tiers: int) -> None:
    """A stronger tier's p is at least a weaker one's, whatever the weaker one's effort; all lie in [0, 1]."""
    arms = [arm(str(i), i) for i in range(num_tiers)]
    arms.append(arm("tries-hard", 0, Effort.XHIGH))
    forecast = MODEL.forecast(view(text), arms)
    ps = [forecast[str(i)].success_probability for i in range(num_tiers)]
    assert ps == sorted(ps)
    assert 0 <= ps[0] <= forecast["tries-hard"].success_probability <= ps[-1] <= 1


@given(texts, texts)
def test_harder_is_worse_for_the_weaker(one: str, other: str) -> None:
    """With difficulty every arm's p falls, and the advantage of the stronger arm grows."""
    easy, hard = sorted((view(one), view(other)), key=MODEL.difficulty)
    weak, strong = arm("weak", 0), arm("strong", 1)
    before, after = MODEL.forecast(easy, (weak, strong)), MODEL.forecast(hard, (weak, strong))
    for name in ("weak", "strong"):
        assert after[name].success_probability <= before[name].success_probability
    gain_before = before["strong"].success_probability - before["weak"].success_probability
    gain_after = after["strong"].success_probability - after["weak"].success_probability
    assert gain_after >= gain_before - 1e-12


def test_worked_example() -> None:
    """ "prove it" scores one reasoning word: h = 1 − e^−(0.03 + 0.3), p = 1 − 0.95·h and 1 − 0.15·h."""
    forecast = MODEL.forecast(view("prove it"), (arm("weak", 0), arm("strong", 1)))
    assert MODEL.contributions(view("prove it"))["reasoning"] == pytest.approx(0.3)
    assert forecast["weak"].success_probability == pytest.approx(1 - 0.95 * 0.2810763)
    assert forecast["strong"].success_probability == pytest.approx(1 - 0.15 * 0.2810763)


def test_effort_raises_p_and_writes_more() -> None:
    """An arm of the same tier with effort is likelier to succeed and is expected to write more."""
    plain, think = arm("plain", 0), arm("think", 0, Effort.MEDIUM)
    forecast = MODEL.forecast(view("prove it"), (plain, think))
    assert forecast["think"].success_probability > forecast["plain"].success_probability
    assert forecast["think"].num_output_tokens == 4 * forecast["plain"].num_output_tokens


def test_output_follows_the_form_asked_for() -> None:
    """A word is expected to be shorter than an answer, and an answer shorter than an essay."""
    word, plain, essay = view("One word: cats?"), view("Cats?"), view("Write an essay on cats.")
    lengths = [expected_output_tokens(each, length=0.0) for each in (word, plain, essay)]
    assert lengths == sorted(set(lengths))


def test_lone_arm_and_none() -> None:
    """One arm is its own strongest; no arms have no forecast."""
    assert set(MODEL.forecast(view("prove it"), (replace(arm("only", 3)),))) == {"only"}
    assert MODEL.forecast(view("hi"), ()) == {}
