"""Which quantised models say nearly the same as before, and which do not: a reason for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distill.paired import Kept
from train.agreement import Agreement


@dataclass(frozen=True, slots=True)
class Bar:
    """What a quantised model has to reach; None asks nothing."""

    max_divergence: float | None = None
    """Nats a token, in every domain."""
    min_retention: float | None = None
    """Of the unquantised model's mean verified score: the lower end of the interval."""

    def reasons(self, agreements: Mapping[str, Agreement], found: Kept | None) -> tuple[str, ...]:
        """Why a model does not pass; nothing where it does.

        Args:
            agreements: by domain, of the unquantised model with it.
            found: what it keeps of the unquantised model's score; None where that was not measured.
        """
        reasons = []
        if self.max_divergence is not None:
            worst, apart = max(agreements.items(), key=lambda pair: pair[1].mean_divergence)
            if not apart.mean_divergence <= self.max_divergence:
                reasons.append(
                    f"{apart.mean_divergence:.4f} nats a token apart in {worst}, and {self.max_divergence:g} may be"
                )
        if self.min_retention is not None:
            retention = found and found.retention
            if retention is None:
                said = (
                    "was not measured"
                    if found is None
                    else "is of nothing: the model scores nothing either way"
                )
                reasons.append(f"retention {said}")
            elif not retention.low >= self.min_retention:
                reasons.append(
                    f"keeps {retention.value:.3f} of the score, {retention.low:.3f} at its lower end, and "
                    f"{self.min_retention:g} is wanted"
                )
        return tuple(reasons)
