"""What the steps of a recipe cost in processor time, stage by stage, beside what their products alone would take.

Items come from the recipe's domains; nothing is judged: answers get rewards that differ, so that every group teaches.
The first step by heart is not timed, for the optimiser makes its moments then. Times are CPU seconds of the process, so
set one thread: they hardly depend on what else runs on the machine, as the wall clock does.

A floor is operations over rate. Operations are those of the matrix products that cannot be left out: two for each
weight and each token that is computed forward, two more for gradients of states and two for gradients of weights in
what moves; the last layer and the output are computed where something is predicted alone. The rate is that of one
product of the model's own sizes, timed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.nn import functional

from train.advantages import centred
from train.batch import Credit, Group, micro_batches
from train.codec import Codec
from train.credit import by_heart
from train.domains.base import Item
from train.domains.catalog import get
from train.learner import Learner, LearnerConfig
from train.losses import Clip, Objective
from train.model.llama import Llama
from train.model.policy import Line, LlamaPolicy
from train.model.trainable import first_trained_layer
from train.policy import LINEAR_MAPS, build_policy
from train.recipe import Recipe
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span
from train.seeds import seed_of
from train.trainer_benchmark import reward_of
from train.transcript import Message

_RATE_TOKENS = 512  # rows of the product that is timed


@dataclass(slots=True)
class Stage:
    """One part of a step, over its repetitions."""

    cpu_s: list[float] = field(default_factory=list)
    num_tokens: list[int] = field(default_factory=list)
    """Of prompts and answers, were each sequence computed alone but each prompt once."""
    num_computed: list[int] = field(default_factory=list)
    """Of those, what is not shared; each once."""
    floor_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ratios:
    """The learner's probabilities by the sampler's, over the tokens that it sampled."""

    mean: float
    largest: float
    clipped_share: float
    """Beyond the recipe's upper bound."""
    divergence: float
    """Of the sampler from the learner's policy: mean of ln (sampler / learner), nats a token."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured."""

    operations_per_s: float
    """Of one float product."""
    stages: dict[str, Stage]
    ratios: dict[str, list[Ratios]]
    """By sampler."""


def measure(
    recipe: Recipe, find_base: Callable[[str], Path], *, num_sft_steps: int, num_rl_steps: int
) -> Cost:
    """Take steps by heart, then of reinforcement; each of the latter samples in both ways and learns in the recipe's.

    Args:
        recipe: whose steps.
        find_base: as `policy.build_policy`.
        num_sft_steps: that are timed.
        num_rl_steps: likewise.
    """
    policy = build_policy(recipe, find_base)
    model = policy.model.model
    cost = Cost(rate_of(model), {}, {})
    learner = _learner(recipe, policy.model, recipe.sft.learning_rate)
    for step in range(num_sft_steps + 1):
        groups = [
            by_heart(item.domain, _prompt(policy.codec, item), policy.codec.answer(_reference(item)))
            for item in _items(recipe, step, recipe.sft.items_per_step)
        ]
        stage = cost.stages.setdefault("sft", Stage()) if step else Stage()
        _learn(stage, learner, policy.model, groups, cost.operations_per_s)
    samplers = {
        name: InProcessSampler(model, num_slots=128, make_linear=made) for name, made in LINEAR_MAPS.items()
    }
    learner = _learner(recipe, policy.model, recipe.rl.learning_rate)
    for step in range(num_rl_steps):
        found = {}
        for name, sampler in samplers.items():
            update, sample = (
                cost.stages.setdefault(f"{name} {part}", Stage()) for part in ("update", "sample")
            )
            update.cpu_s.append(_timed(lambda sampler=sampler, step=step: sampler.update(step)))
            found[name] = _sampled(sample, recipe, policy.codec, sampler, model, step, cost.operations_per_s)
            cost.ratios.setdefault(name, []).append(_ratios(policy.model, found[name], recipe))
        stage = cost.stages.setdefault("rl", Stage())
        _learn(stage, learner, policy.model, found[recipe.rl.sampler], cost.operations_per_s)
    return cost


def rate_of(model: Llama) -> float:
    """Operations a second of a float product of the model's sizes: the best of eight."""
    weight = model.model.layers[0].get_parameter("mlp.gate_proj.weight").detach()
    x = weight.new_ones(_RATE_TOKENS, weight.shape[1])
    times = []
    for _ in range(8):
        times.append(_timed(lambda: [functional.linear(x, weight) for _ in range(8)]) / 8)
    return 2 * x.numel() * len(weight) / min(times)


def layer_weights(model: Llama) -> int:
    """Weights of one layer that tokens are multiplied by."""
    return sum(weight.numel() for weight in model.model.layers[0].parameters() if weight.dim() > 1)


def learn_operations(model: Llama, num_tokens: int, num_rows: int) -> float:
    """Of a step on so many tokens that are computed, and so many places where something is predicted."""
    head = model.lm_head.weight
    frozen = first_trained_layer(model)
    moving = model.shape.num_layers - frozen
    layers = num_tokens * (2 * frozen + 6 * max(0, moving - 1)) + 6 * num_rows * min(1, moving)
    return layers * layer_weights(model) + num_rows * head.numel() * (6 if head.requires_grad else 4)


def _learn(stage: Stage, learner: Learner, policy: LlamaPolicy, groups: Sequence[Group], rate: float) -> None:
    lines = [
        Line(batch, policy.model.lm_head.weight)
        for batch in micro_batches(groups, max_tokens=learner.config.micro_batch_tokens)
    ]
    stage.num_tokens.append(sum(group.num_computed for group in groups))
    stage.num_computed.append(sum(len(line.token_ids) for line in lines))
    stage.floor_s.append(
        sum(learn_operations(policy.model, len(line.token_ids), len(line.predictors)) for line in lines)
        / rate
    )
    stage.cpu_s.append(_timed(lambda: learner.step(groups)))


def _sampled(
    stage: Stage,
    recipe: Recipe,
    codec: Codec,
    sampler: InProcessSampler,
    model: Llama,
    step: int,
    rate: float,
) -> list[Group]:
    """Groups with rewards that differ."""
    items = _items(recipe, step, recipe.rl.groups_per_step)
    seeds = range(recipe.rl.rollouts_per_group)
    most = {domain.name: domain.max_answer_tokens for domain in recipe.domains}
    requests = [
        SampleRequest(
            _prompt(codec, item),
            tuple(seed_of(0, step, place, each) for each in seeds),
            most[item.domain] or item.max_answer_tokens,
        )
        for place, item in enumerate(items)
    ]
    sampling = Sampling(temperature=recipe.rl.temperature, stop_token_ids=(codec.end_token_id,))
    drawn: list[Group] = []
    before = sampler.stats.num_slot_steps

    def sample() -> None:
        answers = sampler.sample(requests, sampling)
        for item, request, row in zip(items, requests, answers, strict=True):
            rollouts = [Rollout((Span(request.token_ids), span), stop) for span, stop in row]
            drawn.append(_group(item.domain, request.token_ids, rollouts))

    stage.cpu_s.append(_timed(sample))
    num_decoded = sampler.stats.num_slot_steps - before
    prompts = {request.token_ids for request in requests}
    num_prompt = len({prompt[:num] for prompt in prompts for num in range(1, len(prompt) + 1)})
    stage.num_tokens.append(sum(group.num_computed for group in drawn))
    stage.num_computed.append(num_prompt + num_decoded)
    layers = (num_prompt + num_decoded) * model.shape.num_layers * layer_weights(model)
    head = (len(prompts) + num_decoded) * model.lm_head.weight.numel()
    stage.floor_s.append(2 * (layers + head) / rate)
    return drawn


def _group(domain: str, prompt: tuple[int, ...], rollouts: Sequence[Rollout]) -> Group:
    advantages = centred([reward_of(rollout.spans[1].token_ids) for rollout in rollouts])
    credits = tuple(
        Credit(rollout, (float(advantage),) * rollout.num_sampled, (0.0,) * rollout.num_sampled)
        for rollout, advantage in zip(rollouts, advantages, strict=True)
    )
    return Group(domain, prompt, credits)


@torch.no_grad()
def _ratios(policy: LlamaPolicy, groups: Sequence[Group], recipe: Recipe) -> Ratios:
    told = [each for group in groups for credit in group.credits for each in credit.behavior_logprobs]
    apart = torch.tensor(told) - policy.score(groups).logprobs
    ratio = (-apart).exp()
    is_clipped = ratio > recipe.rl.clip_high + (recipe.rl.objective is not Objective.CISPO)
    return Ratios(
        float(ratio.mean()), float(ratio.max()), float(is_clipped.double().mean()), float(apart.mean())
    )


def _learner(recipe: Recipe, model: LlamaPolicy, learning_rate: float) -> Learner:
    config = LearnerConfig(
        objective=recipe.rl.objective,
        clip=Clip(low=recipe.rl.clip_low, high=recipe.rl.clip_high),
        learning_rate=learning_rate,
        micro_batch_tokens=recipe.micro_batch_tokens,
    )
    return Learner(model, config)


def _items(recipe: Recipe, step: int, num: int) -> list[Item]:
    """The domains in turn, each at its levels in turn."""
    items = []
    for place in range(num):
        domain = recipe.domains[place % len(recipe.domains)]
        index = step * num + place
        items.append(get(domain.name).item(recipe.seed, index, domain.levels[index % len(domain.levels)]))
    return items


def _prompt(codec: Codec, item: Item) -> tuple[int, ...]:
    return codec.prompt([Message("user", item.prompt)])


def _reference(item: Item) -> str:
    return get(item.domain).reference(item).answer


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
