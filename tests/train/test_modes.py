"""Modes: what is learned, what is forced at which probability, what a direct answer earns, and what a template does."""

from __future__ import annotations

import math

import jinja2
import pytest
import torch

from train.codec import CharacterCodec
from train.domains import terse
from train.domains.base import ErrorClass, Verdict, Worked
from train.losses import Clip, Objective, Tokens, Totals, policy_loss
from train.modes import (
    Mode,
    halves,
    joined,
    max_tokens,
    mode_of,
    opening,
    preferring_direct,
    read,
    solution,
    solutions,
    with_modes,
)
from train.rollouts.rollout import Rollout, SampleRequest, Span, StopReason

CODEC = CharacterCodec()


@pytest.mark.parametrize("domain", terse.DOMAINS, ids=lambda domain: domain.name)
def test_both_forms_are_right(domain: terse.TerseDomain) -> None:
    """Each solution begins with what forces its mode, is read as the answer, and passes; work is one line."""
    assert isinstance(domain, Worked)
    for level in range(domain.num_levels):
        for index in range(20):
            item = domain.item(7, index, level)
            assert "\n" not in domain.worked(item)
            for mode in Mode:
                tokens = solution(CODEC, domain, item, mode)
                assert tokens[: len(opening(CODEC, mode))] == opening(CODEC, mode)
                assert tokens[-1] == CODEC.end_token_id
                text = CODEC.text(tokens)
                assert mode_of(text) is mode
                assert domain.verify(item, read(text)).passed
                assert len(tokens) <= max_tokens(CODEC, domain, item)


@pytest.mark.parametrize(
    ("name", "prompt", "answer", "work"),
    [
        ("addition", "12+39=", "51", "2+9=11 1+3+1=5"),
        ("addition", "5+97=", "102", "5+7=12 9+1=10"),
        ("subtraction", "21-9=", "12", "11-9=2 1-0=1"),
        ("subtraction", "100-1=", "99", "10-1=9 9-0=9 0-0=0"),
        ("counting", "count a in bacad:", "2", "ba1ca2d"),
        ("sorting", "sort caa:", "aac", "a2c1"),
        ("maximum", "max 5 12 7:", "12", "5 12 12"),
        ("remainder", "38 mod 7=", "3", "7*5=35 38-35=3"),
        ("reversal", "reverse abc:", "cba", "1a2b3c"),
    ],
)
def test_workings(name: str, prompt: str, answer: str, work: str) -> None:
    """By hand."""
    (domain,) = (each for each in terse.DOMAINS if each.name == f"terse_{name}")
    assert domain.working(prompt, answer) == work


def test_what_is_read() -> None:
    """The answer stands behind the mode and, where there is one, the line of work; half an answer says nothing."""
    assert read("direct\n51").answer == "51"
    assert read("work\n2+9=11 1+3+1=5\n51").answer == "51"
    assert read("work\n51").answer == ""
    assert read("direct").answer == ""
    assert read("51").answer == "51"
    assert mode_of("working\n51") is None


def test_domain_without_work_is_direct() -> None:
    """It has one form, and asking for the other is a defect that is told."""

    class Plain:
        name = "plain"
        reference = terse.DOMAINS[0].reference

    item = terse.DOMAINS[0].item(0, 0, 0)
    assert len(solutions(CODEC, Plain(), item)) == 1  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plain does not show its work"):
        solution(CODEC, Plain(), item, Mode.WORK)  # type: ignore[arg-type]


def _joined(num: int) -> list[Rollout]:
    request = SampleRequest((1, 2), tuple(range(num)))
    parts = halves(CODEC, request)
    forced = [
        [Rollout((Span(part.token_ids), Span((9,), (-0.5,), 3)), StopReason.END) for _ in part.seeds]
        for part in parts
    ]
    assert [part.token_ids for part in parts] == [(1, 2, *opening(CODEC, mode)) for mode in Mode]
    assert [seed for part in parts for seed in part.seeds] == list(range(num))
    return joined(CODEC, request, forced)


def test_forced_mode_is_a_draw_at_its_share() -> None:
    """The first token of the mode has ln ½, the others ln 1; in an odd group the shares are what they are."""
    direct, *_, work = _joined(8)
    for rollout, mode in ((direct, Mode.DIRECT), (work, Mode.WORK)):
        prompt, chosen, answer = rollout.spans
        assert prompt.token_ids == (1, 2)
        assert not prompt.is_sampled
        assert chosen.token_ids == opening(CODEC, mode)
        assert chosen.behavior_logprobs == (math.log(0.5), *(0.0,) * (len(chosen.token_ids) - 1))
        assert (chosen.policy_version, answer.behavior_logprobs) == (3, (-0.5,))
    shares = [math.exp(rollout.spans[1].behavior_logprobs[0]) for rollout in _joined(3)]  # type: ignore[index]
    assert shares == pytest.approx([1 / 3, 2 / 3, 2 / 3])


def test_importance_weight_gives_the_true_gradient() -> None:
    """A policy over two modes of two tokens each, in float64: the loss of a forced half/half group has the gradient of
    the expected reward under the policy's own choice, whatever the policy."""
    theta = torch.tensor([0.7, -0.3], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([0.25, 1.0], dtype=torch.float64)
    expected = (theta.softmax(0) * rewards).sum()
    (wanted,) = torch.autograd.grad(-expected, theta)
    first = theta.log_softmax(0)
    sure = torch.zeros((), dtype=torch.float64)  # the second token of a mode is certain for this policy
    tokens = Tokens(
        torch.tensor([0, 0, 1, 1]),
        torch.tensor([math.log(0.5), 0.0] * 2, dtype=torch.float64),
        rewards.repeat_interleave(2),
    )
    totals = Totals(num_rollouts=2, num_tokens=4, ce_weight=0.0, num_reference_tokens=0, max_tokens=1)
    logprobs = torch.stack((first[0], sure, first[1], sure))
    loss = policy_loss(logprobs, tokens, totals, Objective.DR_GRPO, Clip(low=1.0, high=9.0)).loss
    (found,) = torch.autograd.grad(loss, theta)
    torch.testing.assert_close(found, wanted)


def test_what_a_direct_answer_earns() -> None:
    """The bonus, right or wrong; nothing without a verdict, with work, or without a mode."""
    right, wrong = Verdict(score=1.0, passed=True), Verdict(score=0.0, passed=False)
    lost = Verdict(score=0.0, passed=False, error=ErrorClass.TIMED_OUT)
    told = [
        preferring_direct(verdict, text, 0.05).score
        for verdict, text in (
            (right, "direct\n1"), (wrong, "direct\n1"), (right, "work\n\n1"), (right, "1"), (lost, "direct\n1")
        )
    ]  # fmt: skip
    assert told == [1.05, 0.05, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("effort", "begin"),
    [("none", "direct\n"), ("low", "direct\n"), ("medium", "work\n"), ("high", "work\n"), (None, "")],
)
def test_template_begins_as_the_effort_says(effort: str | None, begin: str) -> None:
    """Behind the generation prompt; without an effort, or without one to generate, the template is as it was."""
    plain = "{{ messages[0]['content'] }}{% if add_generation_prompt %}>{% endif %}"
    made = jinja2.Environment().from_string(with_modes(plain))
    chosen = {} if effort is None else {"reasoning_effort": effort}
    messages = [{"content": "x"}]
    assert made.render(messages=messages, add_generation_prompt=True, **chosen) == f"x>{begin}"
    assert made.render(messages=messages, add_generation_prompt=False, **chosen) == "x"
