"""The sampler in this process: honest about probabilities, exact under any batching, never idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.batch import Credit, Group
from train.model.linear import FloatLinear, Int8Linear
from train.model.lora import adapters, add_lora
from train.model.policy import LlamaPolicy
from train.model.trainable import train_top_layers
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason

torch.set_num_threads(1)
PROMPTS = ((1, 2, 3), (7,), tuple(range(20)), (5, 5))
REQUESTS = [SampleRequest(prompt, tuple(range(10 * i, 10 * i + 5))) for i, prompt in enumerate(PROMPTS)]
SAMPLING = Sampling(max_tokens=12, stop_token_ids=(9, 11, 13, 40))


def spans(answers: list[list[tuple[Span, StopReason]]]) -> list[list[Span]]:
    return [[span for span, _ in row] for row in answers]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_that_the_learner_finds(temperature: float) -> None:
    """In double precision, sampler and learner agree on every sampled token to rounding."""
    model = tiny_llama()
    sampler = InProcessSampler(model, make_linear=FloatLinear, num_slots=3, policy_version=4)
    found = spans(
        sampler.sample(REQUESTS, Sampling(temperature=temperature, max_tokens=12, stop_token_ids=(9, 11)))
    )
    groups = [
        Group("any", prompt, tuple(credit(prompt, span) for span in row))
        for prompt, row in zip(PROMPTS, found, strict=True)
    ]
    scored = LlamaPolicy(model, temperature=temperature).score(groups).logprobs.detach()
    sampled = torch.tensor(
        [logprob for row in found for span in row for logprob in span.behavior_logprobs or ()]
    )
    torch.testing.assert_close(sampled, scored.to(sampled.dtype), rtol=0, atol=1e-6)
    assert {span.policy_version for row in found for span in row} == {4}


def credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.END), zeros, zeros)


@pytest.mark.parametrize("make_linear", [FloatLinear, Int8Linear])
@pytest.mark.parametrize("num_threads", [1, pytest.param(2, marks=pytest.mark.training)])
def test_an_answer_depends_on_its_seed_and_not_on_its_batch(make_linear: type, num_threads: int) -> None:
    """To the bit: with any number of slots, in any order, alone or among others."""
    torch.set_num_threads(num_threads)
    model = tiny_llama(tiny_shape(max_positions=256), dtype=torch.float32)
    expected = InProcessSampler(model, make_linear=make_linear, num_slots=64).sample(REQUESTS, SAMPLING)
    for num_slots in (1, 2, 7, 20):
        sampler = InProcessSampler(model, make_linear=make_linear, num_slots=num_slots)
        assert sampler.sample(REQUESTS, SAMPLING) == expected
        assert sampler.sample(REQUESTS[::-1], SAMPLING) == expected[::-1]
    alone = SampleRequest(PROMPTS[2], (23,))
    assert sampler.sample([alone], SAMPLING) == [[expected[2][3]]]
    long = SampleRequest(tuple(range(60)) * 2, (1, 2, 3))
    assert sampler.sample([long, *REQUESTS], SAMPLING)[1:] == expected
    torch.set_num_threads(1)


def test_answers_end_where_they_should_and_no_slot_idles() -> None:
    """The end token is the last one and counted as sampled; refills leave no slot empty."""
    sampler = InProcessSampler(tiny_llama(), make_linear=FloatLinear, num_slots=6)
    answers = [answer for row in sampler.sample(REQUESTS, SAMPLING) for answer in row]
    assert {stop for _, stop in answers} == {StopReason.END, StopReason.LENGTH}
    for span, stop in answers:
        ends = [token in SAMPLING.stop_token_ids for token in span.token_ids]
        assert not any(ends[:-1])
        assert ends[-1] == (stop is StopReason.END)
        assert stop is StopReason.END or len(span.token_ids) == SAMPLING.max_tokens
    stats = sampler.stats
    assert stats.num_idle_slot_steps == 0
    assert stats.num_tokens == sum(len(span.token_ids) for span, _ in answers)
    assert stats.num_prompt_tokens == sum(map(len, PROMPTS)), "each prompt is computed once"
    assert stats.num_slot_steps <= stats.num_tokens - len(answers), "first tokens come with the prompt"


@pytest.mark.parametrize("make_linear", [FloatLinear, Int8Linear])
@pytest.mark.parametrize("num_slots", [2, 64])
def test_each_request_has_its_own_limit(make_linear: type, num_slots: int) -> None:
    """To the bit: with one limit for all it is the sampling's, with several each answer is the same one, cut."""
    model = tiny_llama(dtype=torch.float32)
    sampler = InProcessSampler(model, make_linear=make_linear, num_slots=num_slots)
    expected = sampler.sample(REQUESTS, SAMPLING)
    other = replace(SAMPLING, max_tokens=3)
    alike = [replace(request, max_tokens=SAMPLING.max_tokens) for request in REQUESTS]
    assert sampler.sample(alike, other) == expected
    limits = (2, None, 1, 7)
    mixed = [replace(request, max_tokens=limit) for request, limit in zip(REQUESTS, limits, strict=True)]
    twins = [*mixed, replace(REQUESTS[0], max_tokens=5)]  # two limits behind one prompt
    found = sampler.sample(twins, other)
    for row, whole, limit in zip(found, [*expected, expected[0]], (2, 3, 1, 7, 5), strict=True):
        for (span, stop), (all_of_it, _) in zip(row, whole, strict=True):
            assert span.token_ids == all_of_it.token_ids[:limit]
            assert span.behavior_logprobs == (all_of_it.behavior_logprobs or ())[:limit]
            is_ended = span.token_ids[-1] in SAMPLING.stop_token_ids
            assert stop is (StopReason.END if is_ended else StopReason.LENGTH)
    assert {len(span.token_ids) for span, stop in found[2]} == {1}


def num_beginnings(sampler: InProcessSampler, requests: list[SampleRequest]) -> int:
    """Different beginnings of answers that go on: each is computed once."""
    found = spans(sampler.sample(requests, SAMPLING))
    return len(
        {
            (request.token_ids, span.token_ids[:num])
            for request, row in zip(requests, found, strict=True)
            for span in row
            for num in range(1, len(span.token_ids))
        }
    )


@pytest.mark.parametrize("num_slots", [2, 5, 64])
def test_answers_are_one_until_they_part(num_slots: int) -> None:
    """A policy that is nearly sure computes little, in any number of slots, and each answer is what it is alone."""
    model = tiny_llama(dtype=torch.float32)
    with torch.no_grad():
        model.model.norm.weight.mul_(3)  # sharper predictions
    request = SampleRequest(PROMPTS[2], tuple(range(30)))
    sampler = InProcessSampler(model, num_slots=num_slots)
    (answers,) = sampler.sample([request], SAMPLING)
    num_computed, num_sampled = sampler.stats.num_slot_steps, sampler.stats.num_tokens - len(answers)
    if num_slots == 64:
        assert num_computed == num_beginnings(sampler, [request]) < 0.8 * num_sampled
    for seed, answer in zip(request.seeds, answers, strict=True):
        alone = InProcessSampler(model).sample([SampleRequest(PROMPTS[2], (seed,))], SAMPLING)
        assert alone == [[answer]]


def test_the_likeliest_tokens_are_those_of_transformers() -> None:
    """At temperature 0 the answer is transformers' greedy one, whatever the seed."""
    model = tiny_llama()
    theirs = reference_llama(model).generate(
        torch.tensor([PROMPTS[0]]), max_new_tokens=20, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    sampler = InProcessSampler(model, make_linear=FloatLinear)
    ((first, second),) = spans(
        sampler.sample([SampleRequest(PROMPTS[0], (1, 2))], Sampling(temperature=0, max_tokens=20))
    )
    assert first.token_ids == tuple(theirs[0, 3:].tolist()) == second.token_ids


def test_time_runs_out() -> None:
    """At the deadline what there is comes back as unfinished, with its log-probabilities; what never began is empty."""
    ticks: Iterator[int] = iter(range(1000))
    sampler = InProcessSampler(tiny_llama(), num_slots=2, max_seconds=3, clock=lambda: float(next(ticks)))
    answers = sampler.sample([SampleRequest((1, 2), (1, 2, 3, 4))], Sampling(max_tokens=50))[0]
    assert [stop for _, stop in answers] == [StopReason.DEADLINE] * 4
    assert [len(span.token_ids) for span, _ in answers] == [4, 4, 0, 0]
    assert all(span.is_sampled for span, _ in answers)


def test_updates_are_read_when_told() -> None:
    """Moved weights, adapters among them, sample from the next update on, under its version."""
    model = tiny_llama()
    add_lora(model, rank=2, alpha=4, seed=0)
    sampler = InProcessSampler(model)
    before = sampler.sample(REQUESTS, SAMPLING)
    with torch.no_grad():
        for _, adapter in adapters(model):
            adapter.lora_B.add_(0.1)
    assert sampler.sample(REQUESTS, SAMPLING) == before
    sampler.update(1)
    after = sampler.sample(REQUESTS, SAMPLING)
    assert sampler.policy_version == after[0][0][0].policy_version == 1
    assert [s.token_ids for s in spans(after)[0]] != [s.token_ids for s in spans(before)[0]]


def test_the_room_of_the_model_is_the_limit() -> None:
    """An answer stops where positions end; a prompt that leaves no room, or none at all, is an error."""
    sampler = InProcessSampler(tiny_llama(tiny_shape(max_positions=8)))
    ((span, stop),) = sampler.sample([SampleRequest((1, 2, 3), (1,))], Sampling(max_tokens=50))[0]
    assert (len(span.token_ids), stop) == (5, StopReason.LENGTH)
    for prompt in ((), (1,) * 8):
        with pytest.raises(ValueError, match="this model takes 1 to 7"):
            sampler.sample([SampleRequest(prompt, (1,))], Sampling())


def test_nothing_asked_nothing_sampled() -> None:
    """No requests, or requests for no answers, are answered at once."""
    sampler = InProcessSampler(tiny_llama())
    assert sampler.sample([], Sampling()) == []
    assert sampler.sample([SampleRequest((1,), ())], Sampling()) == [[]]


@pytest.mark.parametrize("make_linear", [FloatLinear, Int8Linear])
def test_what_does_not_move_is_read_once(make_linear: type) -> None:
    """After an update it samples as a sampler that is made anew, though frozen layers were kept."""
    model = tiny_llama()
    train_top_layers(model, 1)
    sampler = InProcessSampler(model, make_linear=make_linear)
    first = sampler._decoder
    with torch.no_grad():
        for weight in model.model.layers[-1].parameters():
            weight.mul_(1.5)
    sampler.update(0)
    assert sampler.sample(REQUESTS, SAMPLING) == InProcessSampler(model, make_linear=make_linear).sample(
        REQUESTS, SAMPLING
    )
    kept = [one is other for one, other in zip(first._layers, sampler._decoder._layers, strict=True)]
    assert kept == [True, True, False]
    assert sampler._decoder.logits is first.logits
