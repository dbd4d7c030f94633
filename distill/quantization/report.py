"""What came of quantising: a type a line, beside the model that they were made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final

from distill.gate import EngineName
from distill.paired import Kept
from train.agreement import Agreement
from train.evaluate import Evaluation

WHOLE: Final = "unquantised"
REPORT_NAME: Final = "quantization.json"
"""Where it lies, beside the types that passed."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one model, alone in the engine that it is for."""

    engine: EngineName
    tokens_per_s: float | None
    """None where it does not come up."""
    fault: str = ""
    """Why it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """One type."""

    type: str
    file: str
    """In the directory that was named, where it passes."""
    sha256: str
    """Of its weights (`hashes`)."""
    size_bytes: int
    """With tokenizer and configuration."""
    num_weights: Mapping[str, int]
    """Format → weights that are in it: rows that do not divide into a format's blocks are in another."""
    agreements: Mapping[str, Agreement]
    """By domain."""
    evaluation: Evaluation | None
    """Greedy; None where scores were not asked for."""
    kept: Kept | None
    """Of the unquantised model's verified scores; None where they were not asked for."""
    speed: Speed | None
    """None where it was not measured."""
    reasons: tuple[str, ...]
    """Why it does not pass."""

    @property
    def divergence(self) -> float:
        """Mean over domains, nats a token."""
        return fmean(each.mean_divergence for each in self.agreements.values())

    @property
    def greedy_share(self) -> float:
        """Mean over domains: how often the most likely token is the same."""
        return fmean(each.greedy_share for each in self.agreements.values())

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        told = {"divergence": self.divergence, "greedy_share": self.greedy_share}
        return asdict(self) | told | {"passes": not self.reasons}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All types, beside the model that they were made of."""

    sha256: str
    """Of that model's weights, as it was named (`subject.weights_sha256`)."""
    num_parameters: int
    size_bytes: int
    """Of the weights in single precision."""
    evaluation: Evaluation | None
    """Of the model."""
    speeds: tuple[Speed, ...]
    """Of the model itself: in llama.cpp in single precision, in vLLM in bfloat16."""
    types: tuple[Quantised, ...]

    @property
    def failed(self) -> tuple[Quantised, ...]:
        """Those that do not pass."""
        return tuple(each for each in self.types if each.reasons)

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self) | {"types": [each.as_json() for each in self.types]}
