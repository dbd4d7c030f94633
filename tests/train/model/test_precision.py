"""Products in bfloat16: weights and gradients stay in single precision, sampler and learner stay together."""

from __future__ import annotations

import torch

from tests.train.model.tiny import tiny_llama, tiny_shape
from train.batch import Credit, Group
from train.model.decoder import Decoder
from train.model.linear import FloatLinear
from train.model.policy import LlamaPolicy
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason

torch.set_num_threads(1)
SHAPE = tiny_shape(hidden_size=32, head_size=8, intermediate_size=64)
PROMPTS = [tuple(range(1, 30)), tuple(range(5, 12))]


def groups_of(sampler: InProcessSampler) -> list[Group]:
    requests = [SampleRequest(prompt, (1, 2, 3)) for prompt in PROMPTS]
    answers = sampler.sample(requests, Sampling(max_tokens=12))
    return [
        Group("any", prompt, tuple(credit(prompt, span) for span, _ in row))
        for prompt, row in zip(PROMPTS, answers, strict=True)
    ]


def credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.END), zeros, zeros)


def test_bfloat16_is_near_and_leaves_weights_as_they_are() -> None:
    """Log-probabilities are near those in single precision but not the same, gradients are single and near too, and
    what the sampler says it drew at is what the learner finds, but for rounding."""
    model = tiny_llama(SHAPE, dtype=torch.float32)
    model.precision = torch.bfloat16
    policy, sampler = LlamaPolicy(model), InProcessSampler(model, num_slots=4)
    groups = groups_of(sampler)
    told = torch.tensor([one for group in groups for each in group.credits for one in each.behavior_logprobs])
    rough = policy.score(groups).logprobs
    rough.sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    model.precision = None
    exact = policy.score(groups).logprobs
    exact.sum().backward()
    assert rough.dtype == torch.float32
    assert 0 < (rough - exact).abs().max() < 0.5
    torch.testing.assert_close(told, rough.detach(), rtol=0, atol=0.5)
    assert (told - rough.detach()).abs().mean() < 0.1
    for name, weight in model.named_parameters():
        rough_gradient, gradient = gradients[name], weight.grad
        assert rough_gradient is not None
        assert gradient is not None
        assert rough_gradient.dtype == weight.dtype == torch.float32
        assert torch.cosine_similarity(rough_gradient.flatten(), gradient.flatten(), dim=0) > 0.98


def test_a_sampler_holds_weights_as_products_take_them() -> None:
    """So no step turns them again, and what is sampled is what turning them each time gives."""
    model = tiny_llama(SHAPE, dtype=torch.float32)
    model.precision = torch.bfloat16
    held, turned = Decoder(model, FloatLinear), Decoder(model, lambda weight: FloatLinear(weight.float()))
    assert isinstance(held._layers[0].down, FloatLinear)
    assert held._layers[0].down.weight.dtype == torch.bfloat16
    for mine, other in zip(held.prefill(PROMPTS), turned.prefill(PROMPTS), strict=True):
        assert mine.logits.dtype == torch.float32
        assert torch.equal(mine.logits, other.logits)


def test_keys_are_kept_in_the_precision_of_products() -> None:
    """Half the memory, so twice the slots."""
    model = tiny_llama(SHAPE, dtype=torch.float32)
    assert InProcessSampler(model)._decoder.cache_dtype == torch.float32
    model.precision = torch.bfloat16
    assert InProcessSampler(model)._decoder.cache_dtype == torch.bfloat16
