"""A tiny target, a head that has learned its answers by heart, and what rounds are foreseen: for tests on engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distill.calibration import CalibrationText
from distill.drafts.acceptance import rounds_of
from distill.drafts.head import DraftHead
from distill.drafts.head_run import TEXTS_NAME, Target
from distill.drafts.head_training import train_head
from distill.drafts.model_draft import Drawing
from distill.drafts.recipe import HeadRecipe, TextSettings
from distill.drafts.unrolled import HeadDraft
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.codec import ChatCodec
from train.model.llama import Llama
from train.model.weights import load_llama
from train.recipe import BaseSettings, DomainSettings
from train.rollouts.in_process import InProcessSampler

NUM_DRAFTS = 3
NUM_TOKENS = 25
"""Of an answer."""


@dataclass(frozen=True, slots=True)
class Taught:
    target: Llama
    start: Path
    """The target's checkpoint."""
    head: DraftHead
    """As exported."""
    run: Path
    texts: list[CalibrationText]
    """That it has seen, answered greedily: it is right about them often, which is not how good it is."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    num_rounds: int
    accepted: list[int]
    """Drafts, by place of a round."""


def teach(place: Path) -> Taught:
    """Seconds on one core."""
    start, run = place / "target", place / "run"
    shape = tiny_shape(
        vocab_size=80,
        num_layers=7,
        hidden_size=64,
        head_size=32,
        num_heads=2,
        num_kv_heads=1,
        max_positions=1024,
    )
    write_checkpoint(start, shape)
    model = load_llama(start)
    asked = TextSettings(items_per_domain=6, num_general=0, max_answer_tokens=NUM_TOKENS, temperature=0)
    recipe = HeadRecipe(
        name="tiny", about="for tests", base=BaseSettings(type="artifact", source="tiny"),
        domains=(DomainSettings(name="chain_sum"),), texts=asked, draft_vocab_size=60,
        num_depths=NUM_DRAFTS, num_drafts=NUM_DRAFTS, num_steps=150, texts_per_step=6,
        learning_rate=3e-3, checkpoint_every_steps=150,
    )  # fmt: skip
    target = Target(model, ChatCodec(start), InProcessSampler(model), str(start))
    head = train_head(recipe, target, run)
    assert head is not None
    kept = json.loads((run / TEXTS_NAME).read_text())
    texts = [CalibrationText("a", tuple(prompt), tuple(answer)) for _, prompt, answer in kept]
    return Taught(model, start, head, run, texts)


def foresee(taught: Taught, texts: Sequence[CalibrationText]) -> Foreseen:
    """What rounds our chances foresee: at temperature 0 they are 0 or 1, and coins do not matter."""
    draft = HeadDraft(taught.head, taught.target, Drawing(0.0))
    rounds = [
        each
        for text in texts
        for each in rounds_of(draft.chances(text, NUM_DRAFTS).taken, [0.5] * len(text.drafted))
    ]
    return Foreseen(len(rounds), [sum(each - 1 > place for each in rounds) for place in range(NUM_DRAFTS)])
