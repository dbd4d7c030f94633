"""What is left of a model is measured as a slow forward pass and the formulas by hand say."""

from __future__ import annotations

import pytest
import torch

from distill.calibration import CalibrationText
from distill.pruning.fidelity import Fidelity, Layers
from distill.pruning.pruned import with_layers
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.model.llama import Llama

torch.set_num_threads(1)
TEXTS = [
    CalibrationText("a", (1, 5, 9), (13, 2, 7, 11)),
    CalibrationText("a", (1, 5), (30, 31, 32)),
    CalibrationText("b", (8,), (4,)),
]


@pytest.fixture(scope="module")
def model() -> Llama:
    return tiny_llama(tiny_shape(num_layers=5), dtype=torch.float32)


@torch.no_grad()
def slowly(model: Llama, kept: Layers) -> list[float]:
    """By transformers, text by text, all logits at once."""
    whole, left = reference_llama(model), reference_llama(with_layers(model, kept))
    found = []
    for text in TEXTS:
        token_ids = torch.tensor([text.token_ids[:-1]])
        p, q = (
            each(token_ids).logits[0, len(text.prompt) - 1 :].double().softmax(-1) for each in (whole, left)
        )
        kl = (p * (p / q).log()).sum(-1)
        found.append(torch.stack((kl, torch.minimum(p, q).sum(-1), (p.argmax(-1) == q.argmax(-1)).double())))
    return torch.cat(found, dim=1).mean(1).tolist()


@pytest.mark.parametrize("kept", [(0, 1, 2, 3, 4), (0, 2, 4), (1,), (0, 1, 2, 3)])
@pytest.mark.parametrize("max_bytes", [0, 1 << 30], ids=["again", "kept"])
def test_the_scores_are_the_formulas(
    model: Llama, kept: Layers, max_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Divergence, acceptance and greedy share of any kept layers are what transformers' logits give by hand."""
    monkeypatch.setattr("distill.pruning.fidelity.MAX_KEPT_BYTES", max_bytes)
    scores = Fidelity(model, TEXTS).score(kept)
    found = [scores.divergence, scores.acceptance, scores.greedy_share]
    assert found == pytest.approx(slowly(model, kept), abs=1e-4)


def test_the_whole_is_itself(model: Llama) -> None:
    """With every layer kept nothing is lost."""
    scores = Fidelity(model, TEXTS).score((0, 1, 2, 3, 4))
    assert (scores.divergence, scores.greedy_share) == (0, 1)
    assert scores.acceptance == pytest.approx(1, abs=1e-6)


def test_held_states_change_nothing_and_save_layers(model: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a held beginning the scores are the same to the bit, and only the layers above it are computed."""
    fidelity = Fidelity(model, TEXTS)
    before = fidelity.score((0, 1, 2, 4))
    fidelity.hold([(0, 1, 2, 3, 4)])
    computed: list[int] = []
    through = Llama.through

    def counted(
        self: Llama, states: object, positions: object, attend: object, layers: range, *rest: object
    ) -> object:
        computed.extend(layers)
        return through(self, states, positions, attend, layers, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Llama, "through", counted)
    assert fidelity.score((0, 1, 2, 4)) == before
    assert computed == [4]


@pytest.mark.parametrize(
    "texts", [[], [CalibrationText("a", (1, 2), ())], [CalibrationText("a", (), (1, 2))]]
)
def test_texts_without_an_answer_are_refused(model: Llama, texts: list[CalibrationText]) -> None:
    """No text, no answer, or no prompt: nothing could be measured."""
    with pytest.raises(ValueError, match="need a prompt and an answer"):
        Fidelity(model, texts)
