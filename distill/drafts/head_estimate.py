"""What a head's training would take, measured on its own first texts. Nothing is left behind."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from distill.calibration import NUM_AT_ONCE
from distill.drafts.head_run import Target, answers, held_out, prompts_of
from distill.drafts.head_training import begun_head, chosen_texts, learn, new_optimizer
from distill.drafts.readings import Readings
from distill.drafts.recipe import HeadRecipe
from train.run_directory import RunError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEstimate:
    """Of a run."""

    num_texts: int
    """As many as prompts: answers of one token, which nothing is drafted of, are left out by the run."""
    num_held_out: int
    num_weights: int
    answer_s: float
    """Of one text, as many at once as the run asks."""
    read_s: float
    """Of one text, by the target."""
    reading_bytes: float
    """Of one text's states."""
    step_s: float
    """Readings apart."""
    num_tokens: float
    """Of one text, prompt and answer."""
    peak_bytes: int

    @property
    def file_bytes(self) -> int:
        """Of the exported weights, two bytes each; headers and the vocabulary apart."""
        return 2 * self.num_weights


def estimate(recipe: HeadRecipe, target: Target) -> HeadEstimate:
    """Ask, read and learn once.

    Raises:
        RunError: nothing that is answered first has anything to draft; or as the run.
    """
    prompts, asked = prompts_of(recipe), held_out(recipe)
    few = prompts[:: max(1, len(prompts) // NUM_AT_ONCE)][:NUM_AT_ONCE]
    began = time.perf_counter()
    texts = [text for text in answers(few, recipe, target) if text.drafted]
    answer_s = (time.perf_counter() - began) / len(few)
    if not texts:
        raise RunError("the target answers nothing that could be drafted; name other domains")
    target.model.requires_grad_(False)
    head = begun_head(recipe, target, texts)
    with tempfile.TemporaryDirectory(prefix="tierwise-head-") as scratch:
        readings = Readings(target.model, texts, head.fused, Path(scratch), 0)
        began = time.perf_counter()
        read = [readings[index] for index in chosen_texts(recipe, len(texts), 0)]
        read_s = (time.perf_counter() - began) / len(read)
    began = time.perf_counter()
    learn(recipe, head, target.model, read, new_optimizer(head), 0)
    step_s = time.perf_counter() - began
    return HeadEstimate(
        num_texts=len(prompts),
        num_held_out=len(asked),
        num_weights=sum(weight.numel() for weight in head.parameters()),
        answer_s=answer_s,
        read_s=read_s,
        reading_bytes=sum(each.fused.nbytes + each.hidden.nbytes for each in read) / len(read),
        step_s=step_s,
        num_tokens=sum(len(text.token_ids) for text in texts) / len(texts),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def show_estimate(recipe: HeadRecipe, found: HeadEstimate, console: Console) -> None:
    """As a table."""
    num_read = recipe.num_steps * min(recipe.texts_per_step, found.num_texts)
    cached = min(1.0, (recipe.cache_mib << 20) / max(1.0, found.reading_bytes * found.num_texts))
    num_once = min(num_read, found.num_texts)
    num_passes = cached * num_once + (1 - cached) * num_read
    seconds = {
        "the target's answers": found.num_texts * found.answer_s,
        "the target's states": num_passes * found.read_s,
        "steps": recipe.num_steps * found.step_s,
        # each text is answered, read, and guessed along, which is less than a step's share of it
        "acceptance at the end": found.num_held_out
        * (found.answer_s + found.read_s + found.step_s / recipe.texts_per_step),
    }
    rows = {
        "texts": f"{found.num_texts:,} of {found.num_tokens:.0f} tokens",
        "their states on disk": f"{found.reading_bytes * found.num_texts * cached / 2**20:,.0f} MiB",
        "states computed once": f"{cached:.0%} of texts; the others at every reading",
        "weights of the head": f"{found.num_weights:,}",
        "exported, bfloat16": f"{found.file_bytes / 1e6:.1f} MB",
        "memory at its peak, about": f"{found.peak_bytes / 2**20:,.0f} MiB",
    }
    for name, each in seconds.items():
        how = f"{recipe.num_steps} of {found.step_s:.2f} s: " if name == "steps" else ""
        rows[name] = f"{how}{each / 60:.1f} min"
    rows["altogether"] = f"{sum(seconds.values()) / 60:.1f} min"
    table = Table(title=f"{recipe.name}: {recipe.about}", title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
