"""Tokens a second of the in-process sampler against transformers' `generate`, turn by turn in one process.

Both answer the same prompts as often, at temperature 1, without top-k or top-p, up to the same length; `generate` gets
all answers as one batch, padded on the left, which is its best case: it holds prompts as often as they are answered.
Figures are pairs: each repetition times every way once, in turn, and a ratio is taken within it, so that a busy machine
slows both. CPU seconds stand beside the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from train.batch import Credit, Group
from train.model.linear import FloatLinear, Int8Linear
from train.model.llama import Llama
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked."""

    num_prompts: int = 8
    num_answers: int = 8
    max_tokens: int = 16
    num_slots: int = 64
    num_repetitions: int = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """One way, one repetition."""

    num_tokens: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the sampler's log-probabilities are from the model's own, over the tokens that it sampled; nats."""

    mean: float
    """Signed: the sampler's less the model's. It is the divergence of the sampler's policy from the model's."""
    mean_absolute: float
    largest: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured."""

    timings: dict[str, list[Timing]]
    gaps: dict[str, Gap]

    def ratio(self, way: str, *, by: str = "wall_s") -> float:
        """Median over repetitions of tokens a second against `generate`."""
        pairs = zip(self.timings[way], self.timings["generate"], strict=True)
        return median(
            (ours.num_tokens / getattr(ours, by)) / (theirs.num_tokens / getattr(theirs, by))
            for ours, theirs in pairs
        )


def compare(directory: Path, load: Load) -> Comparison:
    """Time every way on the checkpoint in `directory`."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    prompts = [_prompt(tokenizer, index) for index in range(load.num_prompts)]
    model = load_llama(directory)
    samplers = {
        name: InProcessSampler(model, make_linear=make_linear, num_slots=load.num_slots)
        for name, make_linear in (("int8", Int8Linear), ("float", FloatLinear))
    }
    ways: dict[str, Callable[[int], int]] = {
        "generate": _generate(directory, prompts, tokenizer.eos_token_id, load),
        **{
            name: _sample(sampler, prompts, tokenizer.eos_token_id, load)
            for name, sampler in samplers.items()
        },
    }
    timings: dict[str, list[Timing]] = {name: [] for name in ways}
    for repetition in range(load.num_repetitions):
        for name, way in ways.items():
            timings[name].append(_timed(way, repetition))
    gaps = {name: measure_gap(sampler, model, prompts[:2], load) for name, sampler in samplers.items()}
    return Comparison(timings, gaps)


def measure_gap(
    sampler: InProcessSampler, model: Llama, prompts: Sequence[tuple[int, ...]], load: Load
) -> Gap:
    """Sample, and score the same tokens with the model's own weights."""
    requests = [SampleRequest(prompt, tuple(range(load.num_answers))) for prompt in prompts]
    answers = sampler.sample(requests, Sampling(max_tokens=load.max_tokens))
    groups = [
        Group("any", request.token_ids, tuple(_credit(request.token_ids, span) for span, _ in row))
        for request, row in zip(requests, answers, strict=True)
    ]
    with torch.no_grad():
        scored = LlamaPolicy(model).score(groups).logprobs
    told = torch.tensor([each for row in answers for span, _ in row for each in span.behavior_logprobs or ()])
    apart = told - scored
    return Gap(float(apart.mean()), float(apart.abs().mean()), float(apart.abs().max()))


def _credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.LENGTH), zeros, zeros)


def _prompt(tokenizer: AutoTokenizer, index: int) -> tuple[int, ...]:
    text = f"What is {17 * index % 90 + 10} + {29 * index % 90 + 10}? Answer with the number only."
    messages = [{"role": "user", "content": text}]
    return tuple(tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"])


def _sample(
    sampler: InProcessSampler, prompts: Sequence[tuple[int, ...]], end: int, load: Load
) -> Callable[[int], int]:
    def way(repetition: int) -> int:
        first = repetition * load.num_prompts * load.num_answers
        requests = [
            SampleRequest(
                prompt, tuple(range(first + index * load.num_answers, first + (index + 1) * load.num_answers))
            )
            for index, prompt in enumerate(prompts)
        ]
        before = sampler.stats.num_tokens
        sampler.sample(requests, Sampling(max_tokens=load.max_tokens, stop_token_ids=(end,)))
        return sampler.stats.num_tokens - before

    return way


def _generate(
    directory: Path, prompts: Sequence[tuple[int, ...]], end: int, load: Load
) -> Callable[[int], int]:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    longest = max(map(len, prompts))
    rows = [prompt for prompt in prompts for _ in range(load.num_answers)]
    token_ids = torch.tensor([(end,) * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([(0,) * (longest - len(row)) + (1,) * len(row) for row in rows])

    def way(repetition: int) -> int:
        torch.manual_seed(repetition)
        with torch.no_grad():
            found = model.generate(
                token_ids, attention_mask=mask, max_new_tokens=load.max_tokens, do_sample=True, temperature=1.0,
                top_k=0, top_p=1.0, eos_token_id=end, pad_token_id=end,
            )  # fmt: skip
        ends = (found[:, longest:] == end).int()
        return int((ends.cumsum(-1) - ends == 0).sum())  # up to and with the first end token

    return way


def _timed(way: Callable[[int], int], repetition: int) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    num_tokens = way(repetition)
    return Timing(num_tokens, time.perf_counter() - wall, time.process_time() - cpu)
