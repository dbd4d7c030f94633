"""What the learner is told equals what the whole model says of each sequence alone; only what moves has gradients."""

from __future__ import annotations

import pytest
import torch

from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama
from train.batch import Credit, Group
from train.model.llama import Llama
from train.model.lora import add_lora
from train.model.policy import LlamaPolicy
from train.model.trainable import train_all, train_top_layers
from train.rollouts.rollout import Rollout, Span, StopReason

torch.set_num_threads(1)

PROMPTS = ((1, 2, 3, 4), (7,))
ANSWERS = (((5, 6, 7), (8,)), ((9, 10), (11, 12, 13, 14)))


def groups() -> list[Group]:
    return [
        Group("sums", prompt, tuple(credit(prompt, answer) for answer in answers))
        for prompt, answers in zip(PROMPTS, ANSWERS, strict=True)
    ]


def credit(prompt: tuple[int, ...], answer: tuple[int, ...]) -> Credit:
    zeros = (0.0,) * len(answer)
    rollout = Rollout((Span(prompt), Span(answer, (-1.0,) * len(answer), 0)), StopReason.END)
    return Credit(rollout, zeros, zeros)


def alone(model: Llama, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies, one sequence at a time."""
    logprobs, entropies = [], []
    for prompt, answers in zip(PROMPTS, ANSWERS, strict=True):
        for answer in answers:
            sequence = torch.tensor(prompt + answer)
            said = (logits_of(model, sequence) / temperature).log_softmax(-1)[len(prompt) - 1 : -1]
            logprobs.append(said.gather(-1, torch.tensor(answer)[:, None])[:, 0])
            entropies.append(torch.distributions.Categorical(logits=said).entropy())
    return torch.cat(logprobs), torch.cat(entropies)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("num_layers", [None, 1, 3])
def test_scores_and_gradients_equal_those_of_each_sequence_alone(
    num_layers: int | None, temperature: float
) -> None:
    """A shared prompt, frozen lower layers and logits in pieces change neither numbers nor gradients."""
    model = tiny_llama()
    train_all(model) if num_layers is None else train_top_layers(model, num_layers)
    policy = LlamaPolicy(model, temperature=temperature)
    scored, expected = policy.score(groups()), alone(model, temperature)
    torch.testing.assert_close((scored.logprobs, scored.entropies), expected, rtol=0, atol=1e-12)
    names = list(policy.trained())
    assert len(names) == (29 if num_layers is None else 9 * num_layers + 1)
    weighting = torch.arange(10.0, dtype=torch.float64)
    found, wanted = (
        torch.autograd.grad((pair[0] * weighting).sum() + pair[1].sum(), list(policy.trained().values()))
        for pair in ((scored.logprobs, scored.entropies), expected)
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)


def test_a_reference_stays_while_the_policy_moves() -> None:
    """The reference says what the policy said when it was kept, on cached states and on fresh ones; resets move it."""
    policy = LlamaPolicy(tiny_llama())
    train_top_layers(policy.model, 2)
    policy = LlamaPolicy(policy.model)
    with pytest.raises(RuntimeError, match="keep_reference"):
        policy.reference(groups())
    policy.keep_reference()
    before = policy.score(groups()).logprobs.detach()
    with torch.no_grad():
        for weight in policy.trained().values():
            weight.add_(0.1)
    after = policy.score(groups()).logprobs.detach()
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(policy.reference(groups()), before, rtol=0, atol=0)
    torch.testing.assert_close(policy.reference(groups()[:1]), before[:4], rtol=0, atol=1e-12)
    other = LlamaPolicy(policy.model)
    other.keep_reference(policy.reference_weights())
    torch.testing.assert_close(other.reference(groups()), before, rtol=0, atol=0)
    policy.keep_reference()
    torch.testing.assert_close(policy.reference(groups()), after, rtol=0, atol=0)


@pytest.mark.parametrize("num_layers", [None, 1])
def test_hidden_states_are_what_predicts(num_layers: int | None) -> None:
    """One for each token behind the prompts, in order, without gradient: the output matrix predicts the token by it."""
    model = tiny_llama()
    train_all(model) if num_layers is None else train_top_layers(model, num_layers)
    policy = LlamaPolicy(model)
    hidden = policy.hidden(groups())
    assert hidden.shape == (10, policy.hidden_size)
    assert not hidden.requires_grad
    tokens = torch.tensor([token for answers in ANSWERS for answer in answers for token in answer])
    said = model.logits(hidden).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
    torch.testing.assert_close(said, alone(model, 1.0)[0], rtol=0, atol=1e-12)


def test_adapters_alone_move() -> None:
    """With adapters nothing else has a gradient, and at the start they change nothing."""
    model = tiny_llama()
    expected = alone(model, 1.0)[0].detach()
    add_lora(model, rank=2, alpha=4, seed=0, num_layers=2)
    policy = LlamaPolicy(model)
    scored = policy.score(groups())
    torch.testing.assert_close(scored.logprobs.detach(), expected, rtol=0, atol=1e-12)
    scored.logprobs.sum().backward()
    assert {name.rpartition(".")[2] for name in policy.trained()} == {"lora_A", "lora_B"}
    assert len(policy.trained()) == 2 * 7 * 2
    assert all(weight.grad is not None for weight in policy.trained().values())
