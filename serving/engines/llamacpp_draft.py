"""Drafts of a llama.cpp engine: what proposes the next tokens, which the model then verifies in one step.

A proposed token stays where the model would have drawn it, so what is said is what the model says alone, but for sums
in another order: two tokens that are as good as equal may change places. Whether it is said sooner depends on the text
and the machine: `tierwise bench speculation` measures it.

A tier with a draft offers no log-probabilities, since llama.cpp (b11549) has none of tokens that were proposed and
writes 0 in their place. Of its look-ups only the one that reads a request's own text is here: `ngram-mod` and the
maps keep what other requests said, and how fast an answer comes would then tell one client of another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from serving.engines.base import EngineError, SettingsNode
from serving.engines.gguf_header import Value, metadata, vocabulary_sha256
from serving.engines.llamacpp_plan import Plan

HEAD_ARCHITECTURE: Final = "eagle3"
"""In the GGUF of a head."""


class NgramDraft(SettingsNode):
    """What followed when the last tokens were last said, in the prompt or the answer, is proposed again. No model."""

    type: Literal["ngram"] = "ngram"
    match_tokens: int = Field(3, ge=1, le=64)
    """So many last tokens must have been said before. More find less, and are right more often."""
    max_tokens: int = Field(8, ge=1, le=64)
    """Proposed in one round."""


class ModelDraft(SettingsNode):
    """A smaller model of the same vocabulary writes ahead, or a head that reads the model's own states (EAGLE-3)."""

    type: Literal["model"] = "model"
    model: str
    """A registry reference (`fast@stable`, `name:version`) or a path to a GGUF file, which says if it is a head."""
    quantization: Literal["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"] = "Q4_0"
    """Of a policy that the registry holds as a difference to its base. A GGUF is what it is."""
    max_tokens: int = Field(3, ge=1, le=16)
    """Proposed in one round."""
    min_probability: float = Field(0.0, ge=0, lt=1)
    """A round ends before a token of which the draft is less sure."""


DraftSettings = Annotated[NgramDraft | ModelDraft, Field(discriminator="type")]


def is_head(draft: Path) -> bool:
    """Whether a GGUF file is a head, which is nothing without its model.

    Raises:
        EngineError: the file cannot be read.
    """
    found = (value for key, value in metadata(draft) if key == "general.architecture")
    return next(found, "") == HEAD_ARCHITECTURE


def check_draft(model: Path, draft: Path) -> None:
    """Refuse a draft whose tokens are not the model's, and a head that was made for another one.

    Raises:
        EngineError: so it is, or a file cannot be read.
    """
    if vocabulary_sha256(model) != vocabulary_sha256(draft):
        raise EngineError(
            f"the draft {draft.name} has another vocabulary than {model.name}: take a smaller model of the same family "
            '(a student, or the model in fewer bits), or `draft = { type = "ngram" }`'
        )
    if is_head(draft) and not _fits(dict(metadata(draft)), dict(metadata(model))):
        raise EngineError(
            f"the head {draft.name} was not made for {model.name}, whose width or number of layers is another: train "
            "one for it (`tierwise distill draft train`), or take a model or n-grams"
        )


def _fits(head: Mapping[str, Value], model: Mapping[str, Value]) -> bool:
    """By both files' metadata."""
    kind = model.get("general.architecture")
    layers = head.get(f"{HEAD_ARCHITECTURE}.target_layers")
    width, num_layers = (model.get(f"{kind}.{name}") for name in ("embedding_length", "block_count"))
    is_as_wide = head.get(f"{HEAD_ARCHITECTURE}.target_hidden_size") == width
    return (
        is_as_wide and isinstance(layers, list) and isinstance(num_layers, int) and max(layers) < num_layers
    )


def embedded_draft_arguments(draft: NgramDraft | ModelDraft | None, model: Path | None) -> list[str]:
    """For `llamacpp_server`."""
    if draft is None:
        return []
    if isinstance(draft, NgramDraft):
        argv = ["--draft", "ngram", "--draft-max-tokens", str(draft.max_tokens)]
        return [*argv, "--draft-match-tokens", str(draft.match_tokens)]
    assert model is not None
    argv = ["--draft", "head" if is_head(model) else "model", "--draft-max-tokens", str(draft.max_tokens)]
    argv += ["--draft-model", str(model.absolute())]
    return [*argv, "--draft-min-probability", str(draft.min_probability)]


def binary_draft_arguments(
    draft: NgramDraft | ModelDraft | None, model: Path | None, plan: Plan
) -> list[str]:
    """For `llama-server`."""
    if draft is None:
        return []
    if isinstance(draft, NgramDraft):
        argv = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", str(draft.match_tokens)]
        return [*argv, "--spec-ngram-simple-size-m", str(draft.max_tokens)]
    assert model is not None
    argv = ["--spec-type", "draft-eagle3" if is_head(model) else "draft-simple"]
    argv += ["--spec-draft-model", str(model.absolute())]
    argv += ["--spec-draft-n-max", str(draft.max_tokens), "--spec-draft-p-min", str(draft.min_probability)]
    argv += ["--spec-draft-threads", str(plan.threads_alone)]
    return [*argv, "--spec-draft-threads-batch", str(plan.threads)]


def describe_draft(draft: NgramDraft | ModelDraft) -> str:
    """The draft as one reads it, on one line."""
    if isinstance(draft, NgramDraft):
        return (
            f"n-grams: up to {draft.max_tokens} tokens, where the last {draft.match_tokens} were said before"
        )
    sure = f", each with a probability of {draft.min_probability:g}" if draft.min_probability else ""
    return f"{draft.model}: up to {draft.max_tokens} tokens{sure}"
