"""A shared prompt changes what is computed, not what comes out."""

from __future__ import annotations

import torch

from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama
from train.model.groups import GroupAttention, lay_out, positions_of, predictors_of

torch.set_num_threads(1)


def test_each_continuation_is_as_if_alone() -> None:
    """Logits in a line of groups equal those of each prompt and continuation alone; empty continuations are allowed."""
    model = tiny_llama()
    draw = torch.Generator().manual_seed(2)
    prompts = [torch.randint(61, (n,), generator=draw) for n in (5, 1, 9)]
    answers = [[torch.randint(61, (n,), generator=draw) for n in row] for row in ((3, 1, 0, 7), (2,), ())]
    layouts = lay_out(
        [len(prompt) for prompt in prompts], [[len(answer) for answer in row] for row in answers]
    )
    line = torch.cat([part for prompt, row in zip(prompts, answers, strict=True) for part in (prompt, *row)])
    logits = model.logits(model(line, positions_of(layouts), GroupAttention(layouts)))
    assert len(line) == layouts[-1].stop
    for prompt, row, layout in zip(prompts, answers, layouts, strict=True):
        for answer, place in zip(row, layout.continuations(), strict=True):
            alone = logits_of(model, torch.cat((prompt, answer)))
            own = list(range(layout.start, layout.start + len(prompt))) + list(place)
            torch.testing.assert_close(logits[own], alone, rtol=0, atol=1e-12)


def test_predictors_by_hand() -> None:
    """The prompt's last token predicts each continuation's first, and each token the next of its own continuation."""
    layouts = lay_out([3, 2], [[2, 0, 1], [1]])  # 0 1 2 | 3 4 | | 5 || 6 7 | 8
    assert predictors_of(layouts, [[2, 0, 1], [1]]).tolist() == [2, 3, 2, 7]
    assert predictors_of(layouts, [[3, 1, 2], [2]]).tolist() == [2, 3, 4, 2, 2, 5, 7, 8]
    assert positions_of(layouts).tolist() == [0, 1, 2, 3, 4, 3, 0, 1, 2]
