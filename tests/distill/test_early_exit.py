"""Early exits: the joint loss is its formula, and what is exported for an exit says what the exit says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from distill.early_exit import Exiting, ExitLoss, exit_name
from distill.exit_recipe import Weighting
from distill.pruning.pruned import write_checkpoint
from distill.recipe import PhaseSettings
from distill.student_loss import Counts, Origin, Seen
from distill.whole_teacher import WholeTeacher
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint as write_tiny
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.batch import Group
from train.credit import by_heart
from train.model.llama import Llama
from train.model.policy import Line
from train.model.trainable import moving
from train.model.weights import load_llama, state_of
from train.run_directory import RunError

torch.set_num_threads(1)
GROUPS: tuple[Group, ...] = (
    by_heart(Origin.REFERENCE, (1, 5), (9, 13, 2)),
    by_heart(Origin.TEACHER, (1, 5, 30), (31,)),
)
EXITS = (1, 3)


@pytest.fixture
def model() -> Llama:
    return tiny_llama(tiny_shape(num_layers=4))


def _unlike_norms(exiting: Exiting) -> Exiting:
    """Norms that have moved apart, each in its own way."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for norm in exiting.norms.values():
            norm.weight.mul_(1 + 0.3 * torch.randn(len(norm.weight), generator=generator))
    return exiting


@torch.no_grad()
def _logprobs(model: Llama) -> torch.Tensor:
    """Transformers', at the place before each answered token; text by text, (tokens, V)."""
    theirs = reference_llama(model)
    rows = []
    for group in GROUPS:
        answer = group.credits[0].token_ids
        logits = theirs(torch.tensor([[*group.prompt, *answer]])).logits[0, len(group.prompt) - 1 : -1]
        rows.append(logits.log_softmax(-1))
    return torch.cat(rows)


@pytest.mark.parametrize("weighting", Weighting)
def test_the_joint_loss_is_the_weighted_mean(model: Llama, weighting: Weighting) -> None:
    """KL(whole ‖ exit) by transformers' logits of the exported layers, averaged by the exits' shares."""
    exiting = _unlike_norms(Exiting(model, EXITS))
    teacher = _logprobs(model)
    expected = {
        depth: float((teacher.exp() * (teacher - _logprobs(exiting.standing_alone(depth)))).sum())
        for depth in EXITS
    }
    loss, seen = ExitLoss(exiting, WholeTeacher(model), PhaseSettings(), weighting), Seen()
    total = loss.of_line(GROUPS, Counts.of(GROUPS), seen)
    assert {depth: seen.sums[exit_name(depth)] for depth in EXITS} == pytest.approx(expected)
    weights = {1: 1, 3: 3} if weighting is Weighting.DEPTH else {1: 1, 3: 1}
    joint = sum(weights[depth] * expected[depth] for depth in EXITS) / sum(weights.values())
    assert float(total.detach()) == pytest.approx(joint / 4)
    assert seen.sums[Origin.REFERENCE] + seen.sums[Origin.TEACHER] == pytest.approx(joint)


def test_shares_are_one_together() -> None:
    """By depth a deep exit counts more; equally, all count the same."""
    assert Weighting.DEPTH.shares((2, 6)) == {2: 0.25, 6: 0.75}
    assert Weighting.EQUAL.shares((2, 6)) == {2: 0.5, 6: 0.5}


@pytest.mark.parametrize("depth", [1, 3])
def test_the_exported_checkpoint_says_what_the_exit_says(tmp_path: Path, depth: int) -> None:
    """Written, loaded by transformers and by us, it has the logits of the exit in the joint pass."""
    write_tiny(tmp_path / "whole", tiny_shape(vocab_size=80, num_layers=5))
    exiting = _unlike_norms(Exiting(load_llama(tmp_path / "whole"), EXITS))
    write_checkpoint(exiting.standing_alone(depth), tmp_path / "whole", tmp_path / "exit")
    theirs = LlamaForCausalLM.from_pretrained(tmp_path / "exit", dtype=torch.float32).eval()
    line = Line(GROUPS, exiting.trunk.lm_head.weight)
    with torch.no_grad():
        joint = exiting.trunk.logits(exiting.states(line)[depth])[line.rows]
        rows = []
        for group in GROUPS:
            token_ids = torch.tensor([[*group.prompt, *group.credits[0].token_ids]])
            rows.append(theirs(token_ids).logits[0, len(group.prompt) - 1 : -1])
    torch.testing.assert_close(joint, torch.cat(rows), rtol=1e-4, atol=1e-4)
    assert load_llama(tmp_path / "exit").shape.num_layers == depth


def test_the_whole_model_stays(model: Llama) -> None:
    """A step moves every layer of the copy and every exit's norm; the model and the embedding are as they were."""
    before = {name: tensor.clone() for name, tensor in state_of(model).items()}
    exiting = Exiting(model, EXITS)
    weights = moving(exiting)
    then = {name: weight.detach().clone() for name, weight in weights.items()}
    loss = ExitLoss(exiting, WholeTeacher(model), PhaseSettings(), Weighting.EQUAL)
    optimizer = torch.optim.Adam(weights.values(), lr=0.01)
    loss.of_line(GROUPS, Counts.of(GROUPS), Seen()).backward()
    optimizer.step()
    assert all(not torch.equal(weight, then[name]) for name, weight in weights.items())
    assert len(weights) == 3 * 9 + len(EXITS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state_of(model).items())
    assert torch.equal(exiting.trunk.model.embed_tokens.weight, model.model.embed_tokens.weight)


@pytest.mark.parametrize("asked", [0, 4, 5])
def test_an_exit_that_is_not_there_is_refused(model: Llama, asked: int) -> None:
    """Before the first layer, behind the last, which is the whole, and beyond."""
    with pytest.raises(RunError, match="no exit behind layer"):
        Exiting(model, (asked,))
