"""Trains a head by its recipe: a target's answers, its states, steps that can be stopped anywhere and gone on with.

Every draw is a function of the seed and the step: a run that was stopped comes to the same weights (`head_run` has its
directory).
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from distill.drafts.head import DraftHead, fused_layers, new_head
from distill.drafts.head_loss import head_loss
from distill.drafts.head_run import (
    CHECKPOINTS_NAME,
    METRICS_NAME,
    READINGS_NAME,
    SPECULATOR_NAME,
    Target,
    begin,
    keep_lines,
    texts_of,
)
from distill.drafts.readings import Readings
from distill.drafts.recipe import HeadRecipe
from distill.drafts.speculators_format import save_head
from distill.drafts.vocabulary import most_frequent
from distill.rates import warmed_cosine
from train.checkpointing import Checkpoint, load_latest, save
from train.learner_state import load_moving, moving_tensors
from train.model.llama import Llama
from train.run_directory import RunError
from train.seeds import seed_of

OnStep = Callable[[int, dict[str, Any]], None]


def train_head(
    recipe: HeadRecipe,
    target: Target,
    out: Path,
    *,
    is_resumed: bool = False,
    on_step: OnStep = lambda step, metrics: None,
) -> DraftHead:
    """Train a head and export it into `out`.

    Args:
        recipe: how.
        target: for whom; nothing of it moves.
        out: the run's directory.
        is_resumed: go on with the run that is there.
        on_step: hears each step's metrics; what it raises ends the run, which can be resumed.

    Raises:
        RunError: there is a run already, none to resume, or one of another recipe; or there is nothing to learn from.
        UnknownDomainError: the recipe names one that is not there.
    """
    begin(recipe, out, is_resumed=is_resumed)
    target.model.requires_grad_(False)
    texts = texts_of(recipe, target, out)
    num_target = target.model.shape.vocab_size
    try:
        vocabulary = most_frequent(
            (text.answer for text in texts),
            recipe.draft_vocab_size,
            num_target,
            end_token_id=target.codec.end_token_id,
        )
        fused = recipe.fused_layers or fused_layers(target.model.shape.num_layers)
        head = new_head(target.model, vocabulary, fused, seed=seed_of(recipe.seed, "head"))
    except ValueError as error:
        raise RunError(str(error)) from None
    readings = Readings(target.model, texts, head.fused, out / READINGS_NAME, recipe.cache_mib << 20)
    weights = dict(head.named_parameters())
    optimizer = torch.optim.AdamW(weights.values(), betas=(0.9, 0.95), weight_decay=0.0)
    done = 0
    if (found := load_latest(out / CHECKPOINTS_NAME)) is not None:
        load_moving(found.tensors, weights, optimizer)
        done = found.num_steps
    keep_lines(out / METRICS_NAME, done)
    for step in range(done, recipe.num_steps):
        for group in optimizer.param_groups:
            group["lr"] = warmed_cosine(
                step,
                height=recipe.learning_rate,
                num_warmup_steps=recipe.num_warmup_steps,
                num_steps=recipe.num_steps,
            )
        metrics = _step(recipe, head, target.model, readings, _chosen(recipe, len(texts), step), optimizer)
        with (out / METRICS_NAME).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"step": step, **metrics}) + "\n")
        if (step + 1) % recipe.checkpoint_steps == 0 or step + 1 == recipe.num_steps:
            save(out / CHECKPOINTS_NAME, Checkpoint(step + 1, moving_tensors(weights, optimizer), {}))
        on_step(step, metrics)
    save_head(head, out / SPECULATOR_NAME, verifier=target.name, num_drafts=recipe.num_drafts)
    shutil.rmtree(out / READINGS_NAME)
    return head


def _step(
    recipe: HeadRecipe,
    head: DraftHead,
    target: Llama,
    readings: Readings,
    chosen: Sequence[int],
    optimizer: torch.optim.Optimizer,
) -> dict[str, Any]:
    loss = head_loss(head, target, [readings[index] for index in chosen], recipe.num_depths)
    optimizer.zero_grad()
    loss.total.backward()
    norm = torch.nn.utils.clip_grad_norm_(head.parameters(), recipe.max_gradient_norm)
    optimizer.step()
    return {
        "loss": float(loss.total.detach()),
        "by_depth": loss.by_depth,
        "acceptance": loss.acceptance,
        "gradient_norm": float(norm),
    }


def _chosen(recipe: HeadRecipe, num_texts: int, step: int) -> list[int]:
    drawn = random.Random(seed_of(recipe.seed, "head", "step", step))
    return drawn.sample(range(num_texts), min(recipe.texts_per_step, num_texts))
