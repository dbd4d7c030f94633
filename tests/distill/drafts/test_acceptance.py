"""Chances on a target's text say what real draft-and-verify does, counted by brute force."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
import torch

from distill.calibration import CalibrationText
from distill.cost_model import expected_tokens
from distill.drafts.acceptance import Acceptance, Chances, begins, measure, rounds_of
from distill.drafts.model_draft import Drawing, ModelDraft, answer_logits, rule
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape

torch.set_num_threads(1)
LENGTH, VOCAB, DRAFTS = 4, 3, 2
Way = tuple[tuple[int, ...], tuple[int, ...]]


class _Chain:
    """A next-token distribution for every prefix, drawn once."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.of = {
            prefix: (torch.randn(VOCAB, generator=generator, dtype=torch.float64) * 1.5).softmax(0)
            for length in range(LENGTH)
            for prefix in itertools.product(range(VOCAB), repeat=length)
        }


def _rejected(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    """What is drawn where a draft is refused: max(0, p − q), normalised."""
    left = (target - draft).clamp(min=0)
    return left / left.sum()


def _real(target: _Chain, draft: _Chain) -> dict[Way, float]:
    """Text and rounds → probability, by the algorithm of arXiv:2211.17192 to the letter, every branch followed."""

    def one_round(text: tuple[int, ...], place: int) -> Iterator[tuple[tuple[int, ...], int, float]]:
        """(text, tokens of this round, probability) of every way that this round can go on."""
        if len(text) == LENGTH:
            yield text, place, 1.0
            return
        p = target.of[text]
        if place == DRAFTS:
            yield from (((*text, y), place + 1, float(p[y])) for y in range(VOCAB))
            return
        q = draft.of[text]
        for x in range(VOCAB):
            takes = min(1.0, float(p[x] / q[x]))
            for after, num, likely in one_round((*text, x), place + 1):
                yield after, num, float(q[x]) * takes * likely
            if takes < 1:
                for y in range(VOCAB):
                    yield (*text, y), place + 1, float(q[x]) * (1 - takes) * float(_rejected(p, q)[y])

    found: dict[Way, float] = defaultdict(float)
    going: dict[Way, float] = {((), ()): 1.0}
    while going:
        after: dict[Way, float] = defaultdict(float)
        for (text, rounds), likely in going.items():
            for more, num, chance in one_round(text, 0):
                after[(more, (*rounds, num))] += likely * chance
        for way, likely in after.items():
            if len(way[0]) == LENGTH:
                found[way] += likely
        going = {way: likely for way, likely in after.items() if len(way[0]) < LENGTH}
    return found


def _taken(target: _Chain, draft: _Chain, text: tuple[int, ...]) -> torch.Tensor:
    logs = [torch.stack([chain.of[text[:i]] for i in range(LENGTH)]).log() for chain in (draft, target)]
    taken, _, _ = rule(*logs, torch.tensor(text), Drawing(1.0))
    return taken[:, None].expand(-1, DRAFTS)


def _by_coins(target: _Chain, draft: _Chain) -> dict[Way, float]:
    """The same from the text alone: every pattern of coins, with its probability."""
    found: dict[Way, float] = defaultdict(float)
    for text in itertools.product(range(VOCAB), repeat=LENGTH):
        written = 1.0
        for place, token in enumerate(text):
            written *= float(target.of[text[:place]][token])
        taken = _taken(target, draft, text)
        for heads in itertools.product((True, False), repeat=LENGTH):
            likely = written
            for place, head in enumerate(heads):
                likely *= float(taken[place, 0]) if head else 1 - float(taken[place, 0])
            # a coin of −1 is below every chance, one of 1 below none
            rounds = rounds_of(taken, [-1.0 if head else 1.0 for head in heads])
            found[(text, tuple(rounds))] += likely
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chances_are_real_speculative_sampling(seed: int) -> None:
    """Text and lengths of all rounds have one joint distribution, whether drafted or read off the text; exactly."""
    target, draft = _Chain(seed), _Chain(seed + 100)
    real, coins = _real(target, draft), _by_coins(target, draft)
    assert sum(real.values()) == pytest.approx(1)
    for way in real.keys() | coins.keys():
        assert coins.get(way, 0.0) == pytest.approx(real.get(way, 0.0), abs=1e-12)


def test_the_text_is_the_targets() -> None:
    """Whatever the draft, texts have the target's probabilities: the rejection rule's promise."""
    target, draft = _Chain(7), _Chain(8)
    texts: Counter[tuple[int, ...]] = Counter()
    for (text, _), likely in _real(target, draft).items():
        texts[text] += likely  # type: ignore[assignment]
    for text, likely in texts.items():
        written = 1.0
        for place, token in enumerate(text):
            written *= float(target.of[text[:place]][token])
        assert likely == pytest.approx(written, abs=1e-12)


def test_expected_rounds() -> None:
    """The expectation over coins is what walks come to on average, and their sum over begins is the mean of rounds."""
    taken = torch.rand(12, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    drawn = random.Random(4)
    num = 20_000
    walks = [len(rounds_of(taken, [drawn.random() for _ in range(12)])) for _ in range(num)]
    mean = sum(walks) / num
    error = (sum((each - mean) ** 2 for each in walks) / num**2) ** 0.5
    assert abs(float(begins(taken).sum()) - mean) < 4 * error


def test_ends() -> None:
    """All taken: a round is γ and one. None taken: a round is one token."""
    assert rounds_of(torch.ones(10, 4), [0.5] * 10) == [5, 5]
    assert float(begins(torch.ones(10, 4)).sum()) == 2
    assert rounds_of(torch.zeros(3, 4), [0.5] * 3) == [1, 1, 1]
    assert begins(torch.zeros(3, 4)).tolist() == [1, 1, 1]


class _Constant:
    """Each draft is taken with one chance."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def chances(self, text: CalibrationText, num_drafts: int) -> Chances:
        taken = torch.full((len(text.drafted), num_drafts), self.chance)
        return Chances(taken, taken, taken > 0, torch.ones_like(taken, dtype=torch.bool))


def test_it_is_the_cost_models() -> None:
    """Of a constant chance all rates are it, and long texts have rounds of E tokens."""
    (found,) = measure(_Constant(0.6), [CalibrationText("a", (0,), (0,) * 4001)], 3)
    assert found.rates == pytest.approx([0.6] * 3, rel=1e-5)
    assert found.block_efficiency == pytest.approx(expected_tokens([0.6] * 3), rel=1e-3)
    assert found.places[0].expected == pytest.approx(0.6)


def _text(target: torch.nn.Module, *, greedily: bool) -> CalibrationText:
    generator = torch.Generator().manual_seed(0)
    prompt, answer = [3, 1, 4], [int(torch.randint(61, (1,), generator=generator))]
    for _ in range(20):
        logits = answer_logits(target, CalibrationText("a", tuple(prompt), (*answer, 0)))[-1]  # type: ignore[arg-type]
        drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        answer.append(int(logits.argmax() if greedily else drawn))
    return CalibrationText("a", tuple(prompt), tuple(answer))


def _only(found: list[Acceptance]) -> Acceptance:
    (one,) = found
    return one


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_target_drafts_itself_perfectly(temperature: float) -> None:
    """The target as its own draft is always taken, drawn or greedy."""
    target = tiny_llama()
    text = _text(target, greedily=temperature == 0)
    found = _only(measure(ModelDraft(target, target, Drawing(temperature)), [text], 3))
    assert found.rates == pytest.approx([1, 1, 1])
    assert found.block_efficiency == pytest.approx(len(text.drafted) / -(-len(text.drafted) // 4))
    assert all(place.agreement == 1 for place in found.places)


def test_a_model_against_transformers() -> None:
    """Σ min(p, q) and the chances are those of transformers' logits for both models."""
    target, draft = tiny_llama(), tiny_llama(tiny_shape(num_layers=2), seed=1)
    text = _text(target, greedily=False)
    chances = ModelDraft(draft, target, Drawing(1.0)).chances(text, 2)
    whole = torch.tensor([*text.prompt, *text.answer])
    with torch.no_grad():
        p, q = (
            reference_llama(model)(whole[None]).logits[0, len(text.prompt) : -1].softmax(-1)
            for model in (target, draft)
        )
    said = torch.tensor(text.drafted)[:, None]
    assert chances.expected is not None
    assert torch.allclose(chances.expected[:, 1], torch.minimum(p, q).sum(-1))
    assert torch.allclose(chances.taken[:, 0], (q.gather(1, said) / p.gather(1, said))[:, 0].clamp(max=1))
    assert torch.equal(chances.agrees[:, 0], p.argmax(-1) == q.argmax(-1))


def test_nothing_to_draft() -> None:
    """Answers of one token come with the prompt."""
    with pytest.raises(ValueError, match="no answer has a second token"):
        measure(_Constant(0.5), [CalibrationText("a", (0,), (1,))], 2)
