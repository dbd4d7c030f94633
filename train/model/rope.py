"""How rotary positions are scaled, so that a model reads further than it was first trained to. No torch here.

Three ways, named and parameterised as Hugging Face's `rope_scaling` has them, so that a configuration goes to and from
transformers and vLLM as it is; `train.model.frequencies` computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["linear", "llama3", "yarn"]
KINDS: Final[tuple[Kind, ...]] = ("linear", "llama3", "yarn")


class UnsupportedScalingError(ValueError):
    """A way of scaling that is not computed here; the message says which are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """One way, and how far."""

    kind: Kind
    """`linear`: all positions are divided by the factor (arXiv:2306.15595). `llama3`: only wavelengths that the first
    training did not fill are, with a smooth passage (Llama 3.1's). `yarn`: the same by numbers of turns, and attention
    is sharpened (arXiv:2309.00071)."""
    factor: float
    original_max_positions: int | None = None
    """Of the first training. `linear` does not need it; the others do."""
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    """Of `llama3`: turns within the original context, below the first of which a frequency is divided by the whole
    factor and above the second of which by nothing."""
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    """Of `yarn`: the same two borders, the other way round."""
    attention_factor: float | None = None
    """Of `yarn`: what queries and keys are multiplied with; absent: the paper's, `yarn_attention_factor`."""

    def __post_init__(self) -> None:
        if self.kind != "linear" and self.original_max_positions is None:
            raise ValueError(
                f"{self.kind!r} scaling needs original_max_positions, those of the first training"
            )

    @property
    def magnitude(self) -> float:
        """What turned queries and keys are multiplied with."""
        if self.kind != "yarn":
            return 1.0
        return yarn_attention_factor(self.factor) if self.attention_factor is None else self.attention_factor

    def as_config(self) -> dict[str, Any]:
        """The member `rope_scaling` of a `config.json`."""
        config: dict[str, Any] = {"rope_type": self.kind, "factor": self.factor}
        if self.kind == "linear":
            return config
        config["original_max_position_embeddings"] = self.original_max_positions
        if self.kind == "llama3":
            return config | {
                "low_freq_factor": self.low_freq_factor,
                "high_freq_factor": self.high_freq_factor,
            }
        config |= {"beta_fast": self.beta_fast, "beta_slow": self.beta_slow}
        return (
            config if self.attention_factor is None else config | {"attention_factor": self.attention_factor}
        )


def yarn_attention_factor(factor: float) -> float:
    """0.1 ln s + 1 (arXiv:2309.00071, eq. 22): the square of it is what attention's scores are multiplied with."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0


def read_scaling(config: Mapping[str, Any]) -> RopeScaling | None:
    """The scaling in a `config.json` of either spelling (`rope_parameters`, or `rope_scaling`); None where it has none.

    Raises:
        UnsupportedScalingError: another way of scaling.
    """
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default" or (kind == "linear" and float(rope.get("factor") or 1.0) == 1.0):
        return None
    if kind not in KINDS or not rope.get("truncate", True):
        raise UnsupportedScalingError(
            f"RoPE scaling {kind!r} (truncate={rope.get('truncate', True)}); computed here are 'default', "
            f"{', '.join(map(repr, KINDS))}, with whole borders"
        )
    factor = float(rope["factor"])
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor)
    original = int(
        rope.get("original_max_position_embeddings") or config.get("max_position_embeddings", 2048)
    )
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=factor,
            original_max_positions=original,
            low_freq_factor=float(rope.get("low_freq_factor", 1.0)),
            high_freq_factor=float(rope.get("high_freq_factor", 4.0)),
        )
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_positions=original,
        beta_fast=float(rope.get("beta_fast") or 32),
        beta_slow=float(rope.get("beta_slow") or 1),
        attention_factor=_attention_factor(rope, factor),
    )


def _attention_factor(rope: Mapping[str, Any], factor: float) -> float | None:
    """As it is given, or by DeepSeek's two members; None where the paper's holds."""
    given = rope.get("attention_factor")
    if given is not None:
        return float(given)
    one, all_dim = rope.get("mscale"), rope.get("mscale_all_dim")
    if not (one and all_dim):
        return None
    steepness = yarn_attention_factor(factor) - 1
    return (1 + float(one) * steepness) / (1 + float(all_dim) * steepness)
