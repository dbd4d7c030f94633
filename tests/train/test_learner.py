"""A step: the same however it is cut, upwards in reward, and never with a gradient that is not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from train.batch import Credit, Group, micro_batches, totals_of
from train.conflict import ConflictProbe
from train.entropy import EntropyBand
from train.learner import Learner, LearnerConfig, Scored
from train.losses import Objective
from train.rollouts.rollout import Rollout, Span, StopReason

VOCABULARY = 5


class Bigram:
    """A policy that looks at the token before: logits are a table."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        table = torch.randn(VOCABULARY, VOCABULARY, generator=generator, dtype=torch.float64)
        self.table = Parameter(table)

    def trained(self) -> Mapping[str, Parameter]:
        return {"table": self.table}

    def score(self, groups: Sequence[Group]) -> Scored:
        pairs = [
            pair
            for group in groups
            for credit in group.credits
            for pair in zip((group.prompt[-1], *credit.token_ids), credit.token_ids, strict=False)
        ]
        before, after = torch.tensor(pairs).T
        logprobs = torch.log_softmax(self.table, dim=1)[before]
        entropies = -(logprobs.exp() * logprobs).sum(1)
        return Scored(logprobs.gather(1, after[:, None])[:, 0], entropies)


def credit(
    tokens: Sequence[int],
    advantage: float,
    *,
    model: Bigram,
    ce: float = 0.0,
    prompt: int = 0,
    gap: float = 0.0,
) -> Credit:
    logprobs = torch.log_softmax(model.table.detach(), dim=1)
    pairs = zip((prompt, *tokens), tokens, strict=False)
    behavior = tuple(logprobs[a, b].item() - gap for a, b in pairs)
    rollout = Rollout((Span((prompt,)), Span(tuple(tokens), behavior, 0)), StopReason.END)
    return Credit(rollout, (advantage,) * len(tokens), (ce,) * len(tokens))


def groups_of(model: Bigram) -> list[Group]:
    return [
        Group("a", (0,), (credit([1, 2], 0.5, model=model), credit([3, 2, 1], -0.5, model=model))),
        Group("b", (0,), (credit([4], 0.25, model=model), credit([2, 2], -0.25, model=model, ce=1.0))),
    ]


@pytest.mark.parametrize("objective", list(Objective))
def test_cut_of_the_step_does_not_matter(objective: Objective) -> None:
    """One micro-batch or one for each rollout: the same weights after the step."""
    tables = []
    for size in (10_000, 1):
        model = Bigram()
        config = LearnerConfig(objective=objective, micro_batch_tokens=size, learning_rate=0.1)
        Learner(model, config).step(groups_of(model))
        tables.append(model.table.detach())
    assert torch.allclose(*tables, rtol=1e-9)


def test_reward_rises() -> None:
    """What had an advantage becomes likelier, what had the opposite less likely."""
    model = Bigram()
    good, bad = credit([1, 2], 1.0, model=model), credit([3, 4], -1.0, model=model)
    group = Group("a", (0,), (good, bad))
    before = model.score([group]).logprobs.detach()
    report = Learner(model, LearnerConfig(learning_rate=0.05)).step([group])
    change = model.score([group]).logprobs.detach() - before
    assert report.is_applied
    assert report.mean_ratio == pytest.approx(1.0)
    assert change[:2].sum() > 0 > change[2:].sum()


def test_bad_gradient_changes_nothing() -> None:
    """Where a score is not finite the weights and the optimiser stay as they were, and the report says so."""
    model = Bigram()
    learner = Learner(model, LearnerConfig(learning_rate=0.1))
    poisoned = Group("a", (0,), (credit([1], float("inf"), model=model), credit([2], -1.0, model=model)))
    before = model.table.detach().clone()
    report = learner.step([poisoned])
    assert not report.is_applied
    assert torch.equal(model.table.detach(), before)
    assert learner.num_steps_done == 0
    assert learner.step(groups_of(model)).is_applied


def test_rollouts_of_another_policy_are_rejected() -> None:
    """A rollout that the policy would hardly sample is counted, and pulls at nothing."""
    model = Bigram()
    far = Group("a", (0,), (credit([1], 1.0, model=model, gap=5.0), credit([2], -1.0, model=model, gap=5.0)))
    before = model.table.detach().clone()
    report = Learner(model, LearnerConfig(learning_rate=0.1)).step([far])
    assert report.num_rejected == 2
    assert report.max_ratio == pytest.approx(exp(5))
    assert torch.equal(model.table.detach(), before)


def test_alike_rollouts_still_teach_by_heart() -> None:
    """A group without advantages keeps its cross-entropy, and does not thin that of the others out."""
    model = Bigram()
    alike = Group("a", (0,), (credit([1, 2], 0.0, model=model, ce=1.0), credit([3], 0.0, model=model)))
    totals = totals_of([alike, *groups_of(model)], max_tokens=8)
    assert totals.num_rollouts == 4
    assert totals.num_tokens == 8
    assert totals.ce_weight == 4.0
    before = model.score([alike]).logprobs.detach()[:2]
    Learner(model, LearnerConfig(learning_rate=0.05)).step([alike])
    assert (model.score([alike]).logprobs.detach()[:2] > before).all()


def test_reference_is_asked_for_where_it_counts() -> None:
    """A divergence without a reference is refused; with one it pulls back."""
    model = Bigram()
    config = LearnerConfig(reference_weight=10.0, learning_rate=0.05, max_mean_log_ratio=100)
    with pytest.raises(ValueError, match="no reference"):
        Learner(model, config)

    def reference(groups: Sequence[Group]) -> Tensor:
        return model.score(groups).logprobs.detach() - 1.0

    group = Group("a", (0,), (credit([1], 1e-6, model=model), credit([2], -1e-6, model=model)))
    before = model.score([group]).logprobs.detach()
    report = Learner(model, config, reference=reference).step([group])
    assert report.losses["reference"] > 0
    assert (model.score([group]).logprobs.detach() < before).all()


def test_entropy_band_pushes_back() -> None:
    """Below the band the coefficient rises step by step, inside it returns to nothing."""
    band = EntropyBand(low=1.0, high=2.0, step=0.01, most=0.02)
    assert [band.observe(0.1) for _ in range(3)] == pytest.approx([0.01, 0.02, 0.02])
    for _ in range(60):
        band.observe(1.5)
    assert band.coefficient == 0
    for _ in range(60):
        band.observe(9.0)
    assert band.coefficient == -0.02


def test_learning_rate_warms_up_and_falls() -> None:
    """Linear to the whole, then a cosine to a tenth."""
    learner = Learner(Bigram(), LearnerConfig(learning_rate=1.0, num_warmup_steps=2, num_steps=4))
    rates = []
    for done in range(5):
        learner.num_steps_done = done
        rates.append(learner.learning_rate())
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.55, 0.1])


def test_micro_batches_keep_to_their_size() -> None:
    """No batch computes more than it may, unless one rollout alone does; all that teaches is in one."""
    model = Bigram()
    credits = tuple(credit([1] * num, 1.0, model=model) for num in (3, 3, 9, 1))
    batches = list(micro_batches([Group("a", (0, 0), credits), *groups_of(model)], max_tokens=8))
    sizes = [num_distinct(batch) for batch in batches]
    assert sizes == [5, 11, 8, 4]
    taught = [each for batch in batches for group in batch for each in group.credits]
    assert taught == [*credits, *(each for group in groups_of(model) for each in group.credits)]


def num_distinct(batch: tuple[Group, ...]) -> int:
    """Tokens to compute, each with all that it follows."""
    whole = [group.prompt + credit.token_ids for group in batch for credit in group.credits]
    return len({tokens[:num] for tokens in whole for num in range(1, len(tokens) + 1)})


def test_what_groups_share_is_counted_once() -> None:
    """Groups that begin alike go into one batch as far as their own tokens allow."""
    model = Bigram()
    groups = [Group("a", (0, 0, 1, 0, last), (credit([1, 1], 1.0, model=model),)) for last in (0, 1)]
    assert list(map(num_distinct, micro_batches(groups, max_tokens=10))) == [10]
    assert list(map(num_distinct, micro_batches(groups, max_tokens=9))) == [7, 7]


def test_domains_apart_sum_to_the_whole() -> None:
    """Where nothing conflicts, looking at each domain's gradient changes no weight."""
    tables = []
    for conflict in (None, ConflictProbe()):
        model = Bigram()
        learner = Learner(model, LearnerConfig(learning_rate=0.1), conflict=conflict)
        for _ in range(3):
            learner.step(groups_of(model))
        tables.append(model.table.detach())
    assert torch.allclose(*tables, rtol=1e-9)
    assert conflict is not None
    assert set(conflict.matrix()) == {"a", "b"}


def test_credit_has_a_place_for_every_token() -> None:
    """A credit that does not fit its rollout is refused."""
    model = Bigram()
    with pytest.raises(ValueError, match="2 tokens, 1 advantages"):
        Credit(credit([1, 2], 0, model=model).rollout, (0.0,), (0.0, 0.0))
