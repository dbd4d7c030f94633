"""What a student is taught, held against the formulas by transformers, and where nothing is to learn."""

from __future__ import annotations

import pytest
import torch

from distill.recipe import PhaseSettings
from distill.student_learner import StudentLearner
from distill.student_loss import Counts, Matched, Origin, Seen, StudentLoss
from distill.whole_teacher import WholeTeacher, states_behind
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.batch import micro_batches
from train.credit import by_heart
from train.model.llama import Llama
from train.model.policy import Line

torch.set_num_threads(1)
GROUPS = (
    by_heart(Origin.REFERENCE, (1, 5, 9), (13, 2, 7)),
    by_heart(Origin.TEACHER, (1, 5, 9), (13, 4)),
    by_heart(Origin.STUDENT, (8, 3), (20, 21, 22, 23)),
)
NUM_TOKENS = 9


@pytest.fixture
def pair() -> tuple[Llama, Llama]:
    """A student of two layers, a teacher of three; double precision."""
    return tiny_llama(tiny_shape(num_layers=2), seed=1), tiny_llama(tiny_shape(num_layers=3))


def _by_hand(student: Llama, teacher: Llama, settings: PhaseSettings) -> tuple[float, float]:
    """Divergence and cross-entropy, text by text with all logits at once."""
    apart, surprise = [], []
    for group in GROUPS:
        answer = group.credits[0].token_ids
        token_ids = torch.tensor([[*group.prompt, *answer]])
        with torch.no_grad():
            p, q = (
                reference_llama(model)(token_ids).logits[0, len(group.prompt) - 1 : -1].softmax(-1)
                for model in (teacher, student)
            )
        m = settings.beta * p + (1 - settings.beta) * q
        kl_p, kl_q = ((each * (each / m).log()).sum(-1) for each in (p, q))
        jsd = settings.beta * kl_p + (1 - settings.beta) * kl_q
        apart += jsd.tolist() if settings.divergence == "jsd" else (p * (p / q).log()).sum(-1).tolist()
        if group.domain == Origin.REFERENCE:
            surprise += (-q[range(len(answer)), list(answer)].log()).tolist()
    return sum(apart) / len(apart), sum(surprise) / len(surprise)


@pytest.mark.parametrize("divergence", ["forward_kl", "jsd"])
@pytest.mark.parametrize("max_tokens", [4, 100], ids=["apart", "at once"])
def test_the_loss_is_the_formula(pair: tuple[Llama, Llama], divergence: str, max_tokens: int) -> None:
    """However a step is laid in lines: the mean divergence over tokens, and the references' cross-entropy beside it."""
    student, teacher = pair
    settings = PhaseSettings(divergence=divergence, beta=0.3, cross_entropy_weight=0.7)  # type: ignore[arg-type]
    loss = StudentLoss(student, WholeTeacher(teacher), settings, Matched((), ()))
    counts, seen = Counts.of(GROUPS), Seen()
    assert counts == Counts(NUM_TOKENS, 3)
    parts = [loss.of_line(batch, counts, seen) for batch in micro_batches(GROUPS, max_tokens=max_tokens)]
    assert len(parts) == (3 if max_tokens == 4 else 1)
    apart, surprise = _by_hand(student, teacher, settings)
    assert float(torch.stack(parts).sum().detach()) == pytest.approx(apart + 0.7 * surprise)
    assert seen.sums["cross_entropy"] == pytest.approx(surprise)
    assert sum(seen.sums[origin] for origin in Origin) / NUM_TOKENS == pytest.approx(apart)


@pytest.mark.parametrize("divergence", ["forward_kl", "reverse_kl", "jsd", "total_variation"])
def test_a_student_that_is_its_teacher_has_nothing_to_learn(divergence: str) -> None:
    """On its own answers and on others': loss 0, states alike, no gradient."""
    student = tiny_llama()
    settings = PhaseSettings(divergence=divergence, hidden_weight=1.0)  # type: ignore[arg-type]
    loss = StudentLoss(student, WholeTeacher(tiny_llama()), settings, Matched.of((0, 1, 2), 3))
    total = loss.of_line(GROUPS, Counts.of(GROUPS), Seen())
    total.backward()
    assert float(total.detach()) == pytest.approx(0, abs=1e-9)
    for name, weight in student.named_parameters():
        assert weight.grad is not None, name
        assert float(weight.grad.abs().max()) < 1e-9, name


def test_states_are_matched_where_the_next_kept_layer_begins() -> None:
    """Layers 0, 2 and 4 of six: what each of them gives goes on into the next, the last into the norm."""
    assert Matched.of((0, 2, 4), 6) == Matched((1, 2, 3), (2, 4, 6))


def test_states_below_the_last_are_of_prompts_too(pair: tuple[Llama, Llama]) -> None:
    """As `transformers` has them, of every token; behind the last layer of predictors alone."""
    teacher, group = pair[1], GROUPS[0]
    line = Line((group,), teacher.lm_head.weight)
    _, (below, last) = states_behind(teacher, line, (1, 3))
    token_ids = torch.tensor([[*group.prompt, *group.credits[0].token_ids]])
    with torch.no_grad():
        expected = reference_llama(teacher)(token_ids, output_hidden_states=True).hidden_states[1][0]
    torch.testing.assert_close(below, expected[: len(line.token_ids)], rtol=1e-5, atol=1e-5)
    assert len(last) == len(line.predictors) < len(below)


def test_a_step_moves_what_moves(pair: tuple[Llama, Llama]) -> None:
    """The metrics are of the step's texts, the rate is the schedule's, and a second step is nearer to the teacher."""
    student, teacher = pair
    settings = PhaseSettings(num_steps=10, num_warmup_steps=1, learning_rate=1e-2, hidden_weight=0.1)
    loss = StudentLoss(student, WholeTeacher(teacher), settings, Matched.of((0, 2), 3))
    learner = StudentLearner(student, loss, settings, micro_batch_tokens=64)
    found = [learner.step(GROUPS, number) for number in range(10)]
    assert [each["learning_rate"] for each in found[:2]] == pytest.approx([5e-3, 1e-2])
    assert found[0]["num_tokens"] == NUM_TOKENS
    assert [found[0][f"num_{origin}_tokens"] for origin in Origin] == [3, 2, 4]
    assert found[0]["num_computed_tokens"] == 10  # less what is shared, and the last tokens of answers
    assert found[-1]["divergence"] < found[0]["divergence"]
    assert found[-1]["hidden_loss"] < found[0]["hidden_loss"]
