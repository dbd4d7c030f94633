"""What is trained on: never what an evaluation asks."""

from __future__ import annotations

from pathlib import Path

import torch

from distill.calibration import (
    GENERAL,
    CalibrationText,
    answered,
    domain_prompts,
    general_prompts,
    held_out_prompts,
    referenced,
)
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.codec import ChatCodec
from train.domains import catalog
from train.evaluate import held_out
from train.model.weights import load_llama
from train.rollouts.in_process import InProcessSampler

torch.set_num_threads(1)
NAMES = ("chain_sum", "gcd", "word_sorting", "terse_addition")
DOMAINS = [catalog.get(name) for name in NAMES]


def test_training_never_meets_what_is_held_out() -> None:
    """Neither an item nor its text, though of single digits' sums there are hardly more than a hundred."""
    measured = held_out_prompts(DOMAINS, 96)
    texts = {prompt.text for prompt in measured}
    plain = domain_prompts(DOMAINS, 96, seed=0)
    assert not {prompt.name for prompt in plain} & {prompt.name for prompt in measured}
    assert {prompt.text for prompt in plain} & texts  # what chance alone would do
    apart = domain_prompts(DOMAINS, 96, seed=0, without=texts)
    assert not {prompt.text for prompt in apart} & texts
    assert {prompt.domain for prompt in apart} == set(NAMES)


def test_what_is_held_out_is_what_evaluations_ask() -> None:
    """Item for item, over a domain's levels."""
    domain = DOMAINS[0]
    asked = [item.prompt for item in held_out(domain, range(domain.num_levels), 6)]
    assert [prompt.text for prompt in held_out_prompts([domain], 6)] == asked


def test_items_with_tools_are_left_out() -> None:
    """A domain whose items have tools gives no prompt."""
    with_tools = catalog.get("tool_sql")
    assert domain_prompts([with_tools], 2, seed=0) == held_out_prompts([with_tools], 2) == []


def test_answers_do_not_depend_on_company(tmp_path: Path) -> None:
    """References are the domain's, own answers the model's; asked alone or among others, they are the same."""
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, max_positions=1024))
    codec, sampler = ChatCodec(tmp_path / "tiny"), InProcessSampler(load_llama(tmp_path / "tiny"))
    prompts = [*domain_prompts(DOMAINS, 2, seed=0), *general_prompts(2, seed=0)]
    references = list(referenced(prompts, {domain.name: domain for domain in DOMAINS}, codec))
    assert [text.domain for text in references] == [name for name in NAMES for _ in range(2)]
    assert all(text.answer[-1] == codec.end_token_id for text in references)

    def said(some: list[int]) -> list[CalibrationText]:
        asked = [prompts[place] for place in some]
        return list(answered(asked, sampler, codec, temperature=1.0, max_tokens=lambda _: 5, seed=3))

    together = said(list(range(len(prompts))))
    assert said([9, 2]) == [together[9], together[2]]
    assert together[9].domain == GENERAL
    assert all(0 < len(text.answer) <= 5 for text in together)
