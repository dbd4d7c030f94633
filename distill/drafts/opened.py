"""A draft by its name: `ngram`, a head's directory, or a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from transformers import PreTrainedTokenizerFast

from distill.drafts.acceptance import Draft
from distill.drafts.head import DraftHead
from distill.drafts.model_draft import Drawing, ModelDraft
from distill.drafts.ngram import NgramDraft
from distill.drafts.speculators_format import load_head
from distill.drafts.unrolled import HeadDraft
from distill.teacher import require_same_tokens
from train.checkpoints.directory import CONFIG, CheckpointError, read_config
from train.model.llama import Llama
from train.model.weights import load_llama

NGRAM: Final = "ngram"


def is_head(name: str) -> bool:
    """Whether it is the directory of a head."""
    directory = Path(name)
    return (directory / CONFIG).exists() and "speculators_model_type" in read_config(directory)


def open_head(name: str, target: Llama) -> DraftHead:
    """The head, which has to be of this target's sizes.

    Raises:
        CheckpointError: it is damaged, or made for another target.
    """
    head = load_head(Path(name))
    sizes = [
        (head.shape.hidden_size, target.shape.hidden_size, "width"),
        (head.vocabulary.num_target, target.shape.vocab_size, "vocabulary"),
    ]
    for ours, theirs, what in sizes:
        if ours != theirs:
            raise CheckpointError(
                f"{name} is for a target with a {what} of {ours}, not {theirs}; name its own target"
            )
    if head.fused[-1] > target.shape.num_layers:
        raise CheckpointError(f"{name} reads layer {head.fused[-1]} of a target; this one has fewer")
    return head


def open_draft(
    name: str, target: Llama, target_directory: Path, drawing: Drawing, locate: Callable[[str], Path]
) -> Draft:
    """The draft, ready to be measured against this target.

    Args:
        name: of the draft.
        target: loaded.
        target_directory: where its tokenizer is.
        drawing: how both choose.
        locate: finds a model's directory by its name.

    Raises:
        CheckpointError: it is missing, damaged, or for another target.
        TokenizerMismatchError: a model of other tokens.
    """
    if name == NGRAM:
        return NgramDraft()
    if is_head(name):
        return HeadDraft(open_head(name, target), target, drawing)
    directory = locate(name)
    mine, theirs = (PreTrainedTokenizerFast.from_pretrained(each) for each in (directory, target_directory))
    require_same_tokens(mine, theirs)
    return ModelDraft(load_llama(directory), target, drawing)
