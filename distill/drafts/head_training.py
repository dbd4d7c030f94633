"""Trains a head by its recipe: a target's answers, its states, steps that can be stopped anywhere and gone on with.

Every draw is a function of the seed and the step: a run that was stopped comes to the same weights. At the end the head
is rounded to what is exported, and that is measured, domain by domain (`head_run` says what the directory has).
"""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from distill.calibration import CalibrationText
from distill.drafts.acceptance import measure
from distill.drafts.head import DraftHead, fused_layers, new_head
from distill.drafts.head_loss import head_loss
from distill.drafts.head_run import (
    ACCEPTANCE_NAME,
    READINGS_NAME,
    SPECULATOR_NAME,
    Target,
    answers,
    held_out,
    texts_of,
)
from distill.drafts.model_draft import Drawing
from distill.drafts.readings import Readings
from distill.drafts.recipe import HeadRecipe
from distill.drafts.speculators_format import load_head, save_head
from distill.drafts.unrolled import HeadDraft, ReadText
from distill.drafts.vocabulary import most_frequent
from distill.rates import warmed_cosine
from train.checkpointing import Checkpoint
from train.learner_state import load_moving, moving_tensors
from train.model.llama import Llama
from train.run_directory import RunDirectory, RunError
from train.seeds import seed_of
from train.steps import TrainingError


@dataclass(frozen=True, slots=True)
class HeadStep:
    """One step, for whoever watches."""

    number: int
    num_steps: int
    metrics: Mapping[str, Any]
    phase: str = "head"


def train_head(
    recipe: HeadRecipe,
    target: Target,
    out: Path,
    *,
    is_resumed: bool = False,
    on_step: Callable[[HeadStep], None] = lambda _: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> DraftHead | None:
    """Train a head, export it into `out`, and measure what was exported; None where the run was told to stop.

    Args:
        recipe: how.
        target: for whom; nothing of it moves.
        out: the run's directory.
        is_resumed: go on with the run that is there.
        on_step: hears each step's metrics; what it raises ends the run, which can be resumed.
        is_stopping: asked at every border between steps; once true, the run is saved.

    Raises:
        RunError: there is a run already, none to resume, or one of another recipe; or there is nothing to learn from.
        TrainingError: a gradient is not finite.
        UnknownDomainError: the recipe names one that is not there.
    """
    target.model.requires_grad_(False)
    with RunDirectory(out, recipe, is_resumed=is_resumed) as run:
        texts = texts_of(recipe, target, out, is_stopping)
        if texts is None:
            return None
        head = begun_head(recipe, target, texts)
        readings = Readings(target.model, texts, head.fused, out / READINGS_NAME, recipe.cache_mib << 20)
        weights = dict(head.named_parameters())
        optimizer = new_optimizer(head)
        done = 0
        if (found := run.latest()) is not None:
            load_moving(found.tensors, weights, optimizer)
            done = found.num_steps
        run.forget_after(done)

        def save(num_done: int) -> None:
            run.save(Checkpoint(num_done, moving_tensors(weights, optimizer), {}))

        for step in range(done, recipe.num_steps):
            if is_stopping():
                save(step)
                return None
            began = time.perf_counter()
            chosen = [readings[index] for index in chosen_texts(recipe, len(texts), step)]
            metrics = learn(recipe, head, target.model, chosen, optimizer, step)
            metrics["seconds"] = time.perf_counter() - began
            run.record("head", step + 1, metrics)
            if (step + 1) % recipe.checkpoint_every_steps == 0 or step + 1 == recipe.num_steps:
                save(step + 1)
            on_step(HeadStep(step + 1, recipe.num_steps, metrics))
    exported = out / SPECULATOR_NAME
    save_head(head, exported, verifier=target.name, num_drafts=recipe.num_drafts, dtype=torch.bfloat16)
    head = load_head(exported)
    _measure(recipe, head, target, out / ACCEPTANCE_NAME)
    shutil.rmtree(out / READINGS_NAME)
    return head


def begun_head(recipe: HeadRecipe, target: Target, texts: Sequence[CalibrationText]) -> DraftHead:
    """The head before its first step, over the vocabulary of these texts.

    Raises:
        RunError: the target has too few tokens or layers.
    """
    shape = target.model.shape
    try:
        vocabulary = most_frequent(
            (text.answer for text in texts),
            recipe.draft_vocab_size,
            shape.vocab_size,
            end_token_id=target.codec.end_token_id,
        )
        fused = recipe.fused_layers or fused_layers(shape.num_layers)
        return new_head(target.model, vocabulary, fused, seed=seed_of(recipe.seed, "head"))
    except ValueError as error:
        raise RunError(str(error)) from None


def new_optimizer(head: DraftHead) -> torch.optim.Optimizer:
    """Of all its weights."""
    return torch.optim.AdamW(head.parameters(), betas=(0.9, 0.95), weight_decay=0.0)


def chosen_texts(recipe: HeadRecipe, num_texts: int, step: int) -> list[int]:
    """Which texts a step reads."""
    drawn = random.Random(seed_of(recipe.seed, "head", "step", step))
    return drawn.sample(range(num_texts), min(recipe.texts_per_step, num_texts))


def learn(
    recipe: HeadRecipe,
    head: DraftHead,
    target: Llama,
    texts: Sequence[ReadText],
    optimizer: torch.optim.Optimizer,
    step: int,
) -> dict[str, Any]:
    """One step; its metrics.

    Raises:
        TrainingError: the gradient is not finite; the weights are as they were.
    """
    rate = warmed_cosine(
        step,
        height=recipe.learning_rate,
        num_warmup_steps=recipe.num_warmup_steps,
        num_steps=recipe.num_steps,
    )
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = head_loss(head, target, texts, recipe.num_depths)
    optimizer.zero_grad()
    loss.total.backward()
    norm = float(torch.nn.utils.clip_grad_norm_(head.parameters(), recipe.max_gradient_norm))
    if not math.isfinite(norm):
        raise TrainingError(
            f"the gradient of step {step + 1} is not finite; begin again with a lower learning_rate"
        )
    optimizer.step()
    return {
        "divergence": float(loss.total.detach()),
        "divergence_by_depth": loss.by_depth,
        "acceptance": loss.acceptance,
        "grad_norm": norm,
        "learning_rate": rate,
    }


def _measure(recipe: HeadRecipe, head: DraftHead, target: Target, path: Path) -> None:
    """Acceptance by domain on held-out items, as `tierwise distill draft measure` writes it; once."""
    if path.exists():
        return
    temperature = recipe.evaluation.temperature
    texts = answers(held_out(recipe), recipe, target, temperature=temperature)
    try:
        found = measure(HeadDraft(head, target.model, Drawing(temperature)), texts, recipe.num_drafts)
    except ValueError as error:
        raise RunError(str(error)) from None
    told = {"settings": recipe.model_dump(mode="json"), "acceptance": [each.as_json() for each in found]}
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
