"""The sizes of a Llama-family model, as its `config.json` has them. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from train.model.rope import RopeScaling, UnsupportedScalingError, read_scaling


class UnsupportedModelError(ValueError):
    """A model outside the family; the message says in what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """Everything that the forward pass depends on besides the weights."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    """None leaves positions alone."""
    max_positions: int
    is_tied: bool
    """Whether the output matrix is the embedding."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LlamaShape:
        """Read a Hugging Face configuration of either spelling (`rope_parameters`, or `rope_theta` and `rope_scaling`).

        Raises:
            UnsupportedModelError: another architecture, or a part of this one that is not computed here.
        """
        _refuse_unsupported(config)
        rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
        num_heads = int(config["num_attention_heads"])
        return cls(
            vocab_size=int(config["vocab_size"]),
            hidden_size=int(config["hidden_size"]),
            intermediate_size=int(config["intermediate_size"]),
            num_layers=int(config["num_hidden_layers"]),
            num_heads=num_heads,
            num_kv_heads=int(config.get("num_key_value_heads") or num_heads),
            head_size=int(config.get("head_dim") or config["hidden_size"] // num_heads),
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            rope_scaling=read_scaling(config),
            max_positions=int(config.get("max_position_embeddings", 2048)),
            is_tied=bool(config.get("tie_word_embeddings", False)),
        )

    def as_config(self) -> dict[str, Any]:
        """The `config.json` that transformers and vLLM read, without the special tokens."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_size,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": None if self.rope_scaling is None else self.rope_scaling.as_config(),
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": self.is_tied,
            "attention_bias": False,
            "mlp_bias": False,
        }


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    kind = config.get("model_type")
    if kind != "llama":
        raise UnsupportedModelError(
            f"model_type is {kind!r}; only the Llama family ('llama') is trained here"
        )
    for flag in ("attention_bias", "mlp_bias"):
        if config.get(flag):
            raise UnsupportedModelError(f"{flag} is set; Llamas without biases are trained here")
    if config.get("hidden_act", "silu") != "silu":
        raise UnsupportedModelError(f"hidden_act is {config['hidden_act']!r}; only 'silu' is computed here")
    try:
        read_scaling(config)
    except UnsupportedScalingError as error:
        raise UnsupportedModelError(str(error)) from None
