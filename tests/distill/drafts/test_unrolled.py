"""A head unrolled from everywhere at once drafts as a head does that goes step by step."""

from __future__ import annotations

import pytest
import torch

from distill.calibration import CalibrationText
from distill.drafts.acceptance import measure
from distill.drafts.head import DraftHead, fused_layers, new_head
from distill.drafts.head_loss import drafted_likelihoods, head_loss, place_losses
from distill.drafts.model_draft import Drawing, answer_logits
from distill.drafts.rows import CausalRows
from distill.drafts.unrolled import HeadDraft, read, unroll
from distill.drafts.vocabulary import DraftVocabulary, most_frequent
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.model.llama import Llama

torch.set_num_threads(1)
DEPTHS = 3
TEXTS = [
    CalibrationText("a", (3, 1, 4, 1, 5), (9, 2, 6, 5, 3, 5)),
    CalibrationText("b", (7, 7), (8, 20)),
    CalibrationText("a", (10, 11, 12), (13, 14, 15, 16)),
]


@pytest.fixture
def target() -> Llama:
    return tiny_llama(tiny_shape(num_layers=6))


@pytest.fixture
def head(target: Llama) -> DraftHead:
    """Its weights large, so that every part matters."""
    vocabulary = DraftVocabulary((0, 2, 3, 5, 6, 14, 16, 20, 60), 61)
    made = new_head(target, vocabulary, (1, 3, 5), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(
                0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype) + (weight.dim() == 1)
            )
    return made


@torch.no_grad()
def _step_by_step(head: DraftHead, target: Llama, text: CalibrationText, root: int) -> list[torch.Tensor]:
    """Logits of the drafts from a root: what was read so far, then the chain, all read again for every guess."""
    tokens = [*text.prompt, *text.answer]
    states = list(head.fc(read(target, text, head.fused).fused)[: root + 1])
    found = []
    for depth in range(min(DEPTHS, len(tokens) - root - 2)):
        embedded = target.model.embed_tokens(torch.tensor(tokens[1 : root + 2 + depth]))
        outputs = head(embedded, torch.stack(states), torch.arange(len(states)), CausalRows(1))
        found.append(head.logits(outputs[-1]))
        states.append(outputs[-1])
    return found


def test_unrolled_is_step_by_step(head: DraftHead, target: Llama) -> None:
    """Every guess of every chain in a filled-up batch is that of drafting alone from the chain's root."""
    with torch.no_grad():
        unrolled = list(unroll(head, target, [read(target, text, head.fused) for text in TEXTS], DEPTHS))
    assert [len(each.places) for each in unrolled] == [5 + 1 + 3, 4 + 0 + 2, 3 + 0 + 1]
    found = {
        (depth, int(place)): logits
        for depth, guesses in enumerate(unrolled)
        for place, logits in zip(guesses.places, guesses.logits, strict=True)
    }
    begun = 0
    for text in TEXTS:
        for start in range(len(text.drafted)):
            guesses = _step_by_step(head, target, text, len(text.prompt) - 1 + start)
            for depth, logits in enumerate(guesses):
                assert torch.allclose(found.pop((depth, begun + start + depth)), logits)
        begun += len(text.drafted)
    assert not found


def test_states_are_transformers(target: Llama) -> None:
    """What is fused stands behind so many layers, and what predicts is the last state; as transformers has them."""
    text = TEXTS[0]
    reading = read(target, text, (1, 3, 5))
    whole = torch.tensor([[*text.prompt, *text.answer[:-1]]])
    with torch.no_grad():
        said = reference_llama(target)(whole, output_hidden_states=True)
        fused = torch.cat([said.hidden_states[k][0] for k in (1, 3, 5)], dim=-1)
        # its norms are single by design
        torch.testing.assert_close(reading.fused, fused, rtol=0, atol=1e-4)
        predicted = said.logits[0, len(text.prompt) :]
        torch.testing.assert_close(target.logits(reading.hidden), predicted, rtol=0, atol=1e-4)
        assert torch.allclose(target.logits(reading.hidden), answer_logits(target, text))


def test_loss_by_hand() -> None:
    """m KL(p′ ‖ q) by its definition; 0 where q is p′; slopes are those of KL(p ‖ q)."""
    p = torch.tensor([[0.5, 0.1, 0.2], [0.0, 0.3, 0.7]], dtype=torch.float64)
    logits = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, 0.5]], dtype=torch.float64, requires_grad=True)
    q = logits.softmax(-1)
    renormed = p / p.sum(-1, keepdim=True)
    by_hand = p.sum(-1) * (torch.xlogy(renormed, renormed) - renormed * q.log()).sum(-1)
    losses = place_losses(p, logits.log_softmax(-1))
    assert torch.allclose(losses, by_hand)
    (slope,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
    (of_kl,) = torch.autograd.grad(-(p * q.log()).sum(), logits)
    assert torch.allclose(slope, of_kl)
    assert float(place_losses(p[:1], renormed[:1].log()).abs()) < 1e-12


def test_head_loss(head: DraftHead, target: Llama) -> None:
    """A batch is the mean over its places at each depth, whatever is filled up; weights fall by 0.8 a depth."""
    readings = [read(target, text, head.fused) for text in TEXTS]
    whole = head_loss(head, target, readings, DEPTHS)
    alone = [head_loss(head, target, [each], DEPTHS) for each in readings]
    assert whole.by_depth[1] == pytest.approx((4 * alone[0].by_depth[1] + 2 * alone[2].by_depth[1]) / 6)
    weighted = sum(0.8**depth * each for depth, each in enumerate(whole.by_depth))
    assert float(whole.total.detach()) == pytest.approx(weighted / (1 + 0.8 + 0.64))
    whole.total.backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in head.parameters())
    assert all(weight.grad is None for weight in target.parameters())


def test_acceptance(head: DraftHead, target: Llama) -> None:
    """Σ min(p, q) of the loss is that of the measurement, and nothing outside the draft vocabulary is ever taken."""
    draft = HeadDraft(head, target, Drawing(1.0))
    chances = draft.chances(TEXTS[0], DEPTHS)
    reading = read(target, TEXTS[0], head.fused)
    told = head_loss(head, target, [reading], DEPTHS).acceptance
    assert chances.expected is not None
    for depth in range(DEPTHS):
        assert float(chances.expected[depth:, depth].mean()) == pytest.approx(told[depth])
    drafted = torch.tensor([token in head.vocabulary.token_ids for token in TEXTS[0].drafted])
    assert (chances.taken[~drafted] == 0).all()
    assert (chances.taken[drafted][:, 0] > 0).all()
    assert [found.domain for found in measure(draft, TEXTS, DEPTHS)] == ["a", "b"]
    likely = drafted_likelihoods(head, target, reading.hidden)
    assert torch.allclose(
        likely, answer_logits(target, TEXTS[0]).softmax(-1)[:, list(head.vocabulary.token_ids)]
    )


def test_fused_layers() -> None:
    """vLLM's places; too few layers are refused."""
    assert fused_layers(30) == (2, 15, 27)
    with pytest.raises(ValueError, match="no low, middle and high"):
        fused_layers(5)


def test_vocabulary() -> None:
    """The most frequent tokens, the end among them, in the target's order; d2t and t2d name them."""
    vocabulary = most_frequent([(5, 5, 9, 7), (5, 9)], 3, 12, end_token_id=1)
    assert vocabulary.token_ids == (1, 5, 9)
    assert (torch.arange(3) + vocabulary.d2t).tolist() == [1, 5, 9]
    assert vocabulary.t2d.nonzero()[:, 0].tolist() == [1, 5, 9]
    assert vocabulary.coverage([(5, 9, 7, 7)]) == 0.5
    assert most_frequent([(5,)], 4, 12, end_token_id=1).token_ids == (0, 1, 2, 5)
    with pytest.raises(ValueError, match="take fewer"):
        most_frequent([], 13, 12, end_token_id=1)
