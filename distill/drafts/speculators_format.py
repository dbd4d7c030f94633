"""A head as files, in the `speculators` format that vLLM serves: `vllm serve DIR` starts the target with the head.

Laid out after what vLLM 0.32 reads (`transformers_utils/configs/speculators`, `models/llama_eagle3`):

    config.json         speculators_model_type eagle3, the layer's shape, where states are taken, drafts a round
    model.safetensors   fc, layers.0.*, norm, lm_head, d2t (what is added to a draft id), t2d

The embedding is left out: vLLM then takes the target's. Layers of `eagle_aux_hidden_state_layer_ids` are counted as
here: k is what stands behind k layers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file

from distill.drafts.head import DraftHead
from distill.drafts.vocabulary import DraftVocabulary
from train.checkpoints.directory import CONFIG, WEIGHTS, CheckpointError, read_config, read_tensors
from train.model.shape import LlamaShape

FORMAT_VERSION: Final = "0.2.0"
"""Of the `speculators` library whose layout this is."""


def save_head(
    head: DraftHead, directory: Path, *, verifier: str, num_drafts: int, dtype: torch.dtype = torch.float32
) -> None:
    """Write the head into `directory`, made where it is missing.

    Args:
        head: trained.
        directory: where.
        verifier: the target, as vLLM is to load it: a directory or a hub's id.
        num_drafts: a round's, where whoever serves says nothing else.
        dtype: that weights are rounded to.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).detach().contiguous()
        for name, tensor in head.state_dict().items()
    }
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    config = head_config(head, verifier=verifier, num_drafts=num_drafts, dtype=dtype)
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def head_config(head: DraftHead, *, verifier: str, num_drafts: int, dtype: torch.dtype) -> dict[str, Any]:
    """`config.json`."""
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": FORMAT_VERSION,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": num_drafts}],
            "verifier": {"name_or_path": verifier, "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": head.shape.as_config(),
        "draft_vocab_size": len(head.vocabulary.token_ids),
        "target_hidden_size": head.shape.hidden_size,
        "eagle_aux_hidden_state_layer_ids": list(head.fused),
        "norm_before_residual": False,
        "norm_before_fc": False,
        "tie_word_embeddings": False,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def load_head(directory: Path, *, dtype: torch.dtype = torch.float32) -> DraftHead:
    """The head in a directory that `save_head` wrote.

    Raises:
        CheckpointError: it is no head, of another kind, or damaged.
    """
    config = read_config(directory)
    if config.get("speculators_model_type") != "eagle3":
        raise CheckpointError(f"{directory} is no EAGLE-3 head; name a directory with one, or a model")
    if unknown := [name for name in ("norm_before_residual", "norm_before_fc") if config.get(name)]:
        raise CheckpointError(f"{directory} has {unknown[0]}, which is not computed here; serve it with vLLM")
    weights = read_tensors(directory)
    try:
        shape = LlamaShape.from_config(config["transformer_layer_config"])
        offsets = weights["d2t"]
        token_ids = tuple((offsets + torch.arange(len(offsets))).tolist())
        vocabulary = DraftVocabulary(token_ids, len(weights["t2d"]))
        shape = replace(shape, num_layers=1, is_tied=False)
        head = DraftHead(shape, vocabulary, config["eagle_aux_hidden_state_layer_ids"])
        head.load_state_dict(
            {name: each.to(dtype) if each.is_floating_point() else each for name, each in weights.items()}
        )
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"{directory}: weights and config.json disagree ({error}); export it again"
        ) from None
    return head.to(dtype)
