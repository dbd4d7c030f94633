"""A critic: learns what returns depend on, gives each token its part, and does not depend on how a step is cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from train.advantages import DomainScale
from train.batch import Credit, Group
from train.credit import by_heart
from train.critic import Critic
from train.recipe import CriticSettings
from train.rollouts.rollout import Rollout, Span, StopReason

VOCABULARY, PLACES = 5, 8


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Table:
    """A policy whose state says the place behind the prompt and the token before, and nothing else."""

    def __init__(self, fill: float = 1.0) -> None:
        self.weight = Parameter(torch.zeros(1))
        self.fill = fill

    @property
    def hidden_size(self) -> int:
        return VOCABULARY * PLACES

    def trained(self) -> Mapping[str, Parameter]:
        return {"weight": self.weight}

    def score(self, groups: Sequence[Group]) -> object:
        raise AssertionError("a critic asks for no log-probabilities")

    def hidden(self, groups: Sequence[Group]) -> Tensor:
        rows = []
        for group in groups:
            for credit in group.credits:
                for place, token in enumerate((group.prompt[-1], *credit.token_ids[:-1])):
                    row = torch.zeros(self.hidden_size, dtype=torch.float64)
                    row[place * VOCABULARY + token] = self.fill
                    rows.append(row)
        return torch.stack(rows)


def judged(*spans: Sequence[int], reward: float | None) -> Credit:
    """Sampled spans and given ones in turn, behind the prompt 0."""
    parts = [
        Span(tuple(span), None if place % 2 else (-1.0,) * len(span), None if place % 2 else 0)
        for place, span in enumerate(spans)
    ]
    num = sum(map(len, spans))
    return Credit(Rollout((Span((0,)), *parts), StopReason.END), (9.0,) * num, (0.0,) * num, reward)


def critic_of(model: Table, *, micro_batch_tokens: int = 64, **changes: object) -> Critic:
    settings = CriticSettings.model_validate(
        {"num_warmup_steps": 0, "learning_rate": 0.02, "value_clip": 1.0, "num_updates": 8, **changes}
    )
    critic = Critic(model, settings, micro_batch_tokens=micro_batch_tokens, seed=0)  # type: ignore[arg-type]
    critic.head.double()
    return critic


def two(*credits: Credit) -> list[Group]:
    return [Group("turns", (0,), credits)]


def test_fresh_critic_by_hand() -> None:
    """It knows nothing, so all values are 0: λ² and λ of the reward, none at what was given, the whole at the last."""
    groups = two(judged((1, 2), (3, 3, 3), (4,), reward=1.0), judged((2,), reward=0.5))
    found = critic_of(Table(), gae_trace=0.9).step(groups, None)
    first, second = (credit.advantages for credit in found.groups[0].credits)
    assert first == pytest.approx((0.81, 0.9, 0.0, 0.0, 0.0, 1.0), abs=1e-12)
    assert second == pytest.approx((0.5,), abs=1e-12)
    assert found.metrics["mean_return"] == pytest.approx(3.5 / 4)


@pytest.mark.parametrize("width", [0, 16])
def test_constant_return_is_learned(width: int) -> None:
    """Every rollout is worth 0.7 and after a few steps every state is; nothing has an advantage any more."""
    critic = critic_of(Table(), width=width)
    groups = two(judged((1, 2, 3), reward=0.7), judged((2, 2), reward=0.7))
    for _ in range(3):
        found = critic.step(groups, None)
    advantages = [each for credit in found.groups[0].credits for each in credit.advantages]
    assert advantages == pytest.approx([0.0] * 5, abs=1e-9)


@pytest.mark.parametrize("width", [0, 16])
def test_return_by_place_is_learned(width: int) -> None:
    """With a discount of a half the four tokens are worth an eighth, a quarter, a half and the whole."""
    critic = critic_of(Table(), width=width, discount=0.5)
    groups = two(judged((1, 2, 3, 4), reward=1.0))
    for _ in range(60):
        critic.step(groups, None)
    assert critic.values(Table().hidden(groups)).tolist() == pytest.approx([0.125, 0.25, 0.5, 1.0], abs=0.02)


def test_credit_falls_on_the_token_that_decided() -> None:
    """The first token says how it ends, the others do not: it gets half a score more or less, they get nothing, where a
    group's mean would give all of them the same."""
    critic = critic_of(Table())
    groups = two(judged((1, 1, 1), reward=1.0), judged((2, 2, 2), reward=0.0))
    for _ in range(60):
        found = critic.step(groups, None)
    good, bad = (credit.advantages for credit in found.groups[0].credits)
    assert good == pytest.approx((0.5, 0.0, 0.0), abs=0.03)
    assert bad == pytest.approx((-0.5, 0.0, 0.0), abs=0.03)
    assert found.metrics["explained_variance"] == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize("value_clip", [0.05, 10.0])
def test_cut_of_the_step_does_not_matter(value_clip: float) -> None:
    """All rollouts at once, or each by itself and a state at a time: the same head, the same advantages."""
    groups = [
        *two(judged((1, 2, 3), (4, 4), (1,), reward=1.0), judged((2, 2), reward=0.0)),
        Group("other", (1,), (judged((4,), reward=0.25), judged((3, 1, 2, 4), reward=0.5))),
    ]
    heads, advantages = [], []
    for size in (10_000, 1):
        critic = critic_of(Table(), micro_batch_tokens=size, value_clip=value_clip, width=6)
        for _ in range(3):
            found = critic.step(groups, DomainScale())
        heads.append(dict(critic.head.named_parameters()))
        advantages.append([credit.advantages for group in found.groups for credit in group.credits])
    assert critic.head.last.weight.abs().max() > 1e-3
    for name, weight in heads[0].items():
        torch.testing.assert_close(weight, heads[1][name], rtol=1e-6, atol=1e-8)  # Adam magnifies rounding
    for one, other in zip(*advantages, strict=True):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-8)


def test_value_clip_holds_values_back() -> None:
    """However many updates: in one step values move little beyond the clip, and the share of those held is said."""
    groups = two(judged((1,), reward=1.0), judged((2, 2), reward=0.0))
    moved = []
    for clip in (0.1, 100.0):
        critic = critic_of(Table(), value_clip=clip, num_updates=400, width=0, learning_rate=1e-3)
        metrics = critic.step(groups, None).metrics
        values = critic.values(Table().hidden(groups))
        moved.append(abs(values - critic.scale.mean).max() / critic.scale.deviation)
        assert (metrics["value_clipped_share"] > 0) is (clip < 1)
    assert moved[0] < 0.2  # Adam's momentum carries them on
    assert moved[1] > 0.5


def test_advantages_are_scaled_by_domain() -> None:
    """Each domain's tokens have a root mean square of 1, of what it saw first; while the critic learns alone the scale
    sees nothing."""
    groups = [Group("a", (0,), (judged((1, 2), reward=1.0),)), Group("b", (0,), (judged((3,), reward=0.1),))]
    scale = DomainScale()
    warm = critic_of(Table(), num_warmup_steps=1, gae_trace=0.5)
    found = warm.step(groups, scale)
    assert found.is_warming_up
    assert scale.mean_squares == {}
    cold = critic_of(Table(), gae_trace=0.5).step(groups, scale)
    assert not cold.is_warming_up
    assert scale.mean_squares == pytest.approx({"a": (1 + 0.25) / 2, "b": 0.01})
    of_a, of_b = (group.credits[0].advantages for group in cold.groups)
    assert of_a == pytest.approx((0.5 / 0.625**0.5, 1 / 0.625**0.5))
    assert of_b == pytest.approx((1.0,))


def test_what_nobody_judged_stays() -> None:
    """An answer to be learned by heart, and a rollout without a verdict, are as they were."""
    heart, unjudged = by_heart("sums", (0,), (1, 2)), judged((3,), reward=None)
    groups = [heart, Group("turns", (0,), (unjudged, judged((4,), reward=1.0)))]
    found = critic_of(Table()).step(groups, None)
    assert found.groups[0] == heart
    assert found.groups[1].credits[0] == unjudged
    assert found.groups[1].credits[1].advantages == (1.0,)
    assert critic_of(Table()).step([heart], None).groups == (heart,)


def test_states_that_are_not_finite_teach_nothing() -> None:
    """The head, its scale and its moments stay, and it is said; the learner sees advantages that it refuses."""
    critic = critic_of(Table(), width=4)
    groups = two(judged((1,), reward=1.0), judged((2,), reward=0.0))
    critic.step(groups, None)
    before = {name: weight.detach().clone() for name, weight in critic.head.named_parameters()}
    scale = critic.scale.plain()
    critic._model = Table(float("nan"))  # type: ignore[assignment]
    found = critic.step(groups, None)
    assert not found.metrics["is_critic_applied"]
    assert critic.scale.plain() == scale
    assert all(torch.equal(weight, before[name]) for name, weight in critic.head.named_parameters())
