"""What a router artifact says of itself: of what it was fitted, how far it holds, and what its requests were like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from router.encoding import ENCODING_VERSION
from router.histogram import Reference

SCHEMA: Final = 2


class ArtifactError(ValueError):
    """A file is no router artifact that this version can use; the message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """How far one arm's probabilities hold on prompts that their model had not seen."""

    num_outcomes: int
    success_share: float
    auc: float
    brier_score: float
    calibration_error: float
    """The expected calibration error (`router.calibration`)."""
    calibration_noise: float
    """As much of it perfect probabilities of these heights would show by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactHeader:
    """What an artifact says of itself, for its manifest and for whoever reads it."""

    version: str
    arms: tuple[str, ...]
    """Weakest first."""
    num_prompts: int
    num_groups: int
    """Prompts that are no near-duplicates of each other."""
    data_sha256: str
    """Of the outcomes' file, unpacked."""
    recipe: Mapping[str, Any]
    """How it was fitted, as plain members."""
    metrics: Mapping[str, float]
    """Held out, of all arms together, by name."""
    models: Mapping[str, str] = field(default_factory=dict)
    """What each arm's engine called its model, of the arms of which that is known."""
    embedding: str | None = None
    """The embedding of texts that it was fitted with and cannot do without."""
    figures: Mapping[str, ArmFigures] = field(default_factory=dict)
    """Of each arm, held out: no near-duplicate of a prompt was fitted on."""
    new_domain_figures: Mapping[str, ArmFigures] = field(default_factory=dict)
    """The same where no prompt of its domain was; empty where there were too few domains, or some had nearly all of the
    successes."""
    feature_references: Mapping[str, Reference] = field(default_factory=dict)
    """How each feature was distributed over the prompts."""
    score_references: Mapping[str, Reference] = field(default_factory=dict)
    """How each arm's held-out probabilities of success were."""
    encoding_version: str = ENCODING_VERSION
    schema: int = SCHEMA

    @property
    def calibration_errors(self) -> dict[str, float]:
        """The held-out calibration error of each arm."""
        return {arm: figures.calibration_error for arm, figures in self.figures.items()}


def header_to_json(header: ArtifactHeader) -> bytes:
    """The header as it stands in the file."""
    return json.dumps(asdict(header), allow_nan=False).encode()


def header_from_json(data: bytes) -> ArtifactHeader:
    """The header in a file.

    Raises:
        ArtifactError: of another schema, or for another encoding.
        ValueError, KeyError, TypeError: no header.
    """
    members: Mapping[str, Any] = json.loads(data)
    if members["schema"] != SCHEMA:
        raise ArtifactError(
            f"the artifact has schema {members['schema']}, and this version reads {SCHEMA}; fit it again"
        )
    if members["encoding_version"] != ENCODING_VERSION:
        raise ArtifactError(
            f"the artifact was fitted on {members['encoding_version']}, and this version reads requests as "
            f"{ENCODING_VERSION}; fit it again"
        )
    return ArtifactHeader(
        **dict(members)
        | {
            "arms": tuple(members["arms"]),
            "figures": _figures(members["figures"]),
            "new_domain_figures": _figures(members["new_domain_figures"]),
            "feature_references": _references(members["feature_references"]),
            "score_references": _references(members["score_references"]),
        }
    )


def _figures(members: Mapping[str, Mapping[str, Any]]) -> dict[str, ArmFigures]:
    return {arm: ArmFigures(**each) for arm, each in members.items()}


def _references(members: Mapping[str, Mapping[str, Any]]) -> dict[str, Reference]:
    return {
        name: Reference(
            edges=tuple(each["edges"]), shares=tuple(each["shares"]), num_values=each["num_values"]
        )
        for name, each in members.items()
    }
