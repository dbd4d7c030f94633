"""What is known of a candidate when it comes to the gate: its scores beside the teacher's, and its trials in engines.

`tierwise distill evaluate --out` writes one; the gate reads nothing else. It names the weights that were measured by
their hash, so that it cannot be shown for others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from distill.cost_model import Prediction
from distill.evaluate import Comparison, Side
from distill.gate import Cost, EngineName, Evidence, Wanted
from distill.load_test import Trial
from train.run_directory import RunError


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Of one candidate."""

    candidate: str
    """As it was called."""
    sha256: str
    """Of its weights (`subject.weights_sha256`)."""
    is_same_tokenizer: bool
    """As the teacher's."""
    comparison: Comparison | None = None
    """None where scores were not asked for."""
    trials: tuple[Trial, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it; `read_dossier` reads it."""
        return asdict(self)


def read_dossier(path: Path, sha256: str) -> Dossier:
    """What was written of the weights with this hash.

    Raises:
        RunError: it is missing, something else, or of other weights.
    """
    try:
        found = TypeAdapter(Dossier).validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} is no evaluation ({_first_line(error)}); `evaluate --out` writes one"
        ) from None
    if found.sha256 != sha256:
        raise RunError(
            f"{path} is of other weights ({found.candidate}, {found.sha256[:12]}) than these ({sha256[:12]}); "
            "evaluate these"
        )
    return found


def read_predictions(path: Path) -> list[Prediction]:
    """What `tierwise distill cost-model` wrote.

    Raises:
        RunError: it is missing, or something else.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        found = TypeAdapter(list[Prediction]).validate_python(told["predictions"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(
            f"{path} has no predictions ({_first_line(error)}); `tierwise distill cost-model` writes them"
        ) from None
    if not found:
        raise RunError(f"{path} predicts nothing; ask the cost model for at least one number of drafts")
    return found


def evidence(
    dossier: Dossier,
    wanted: Wanted,
    *,
    size_bytes: int,
    licence: str,
    predictions: list[Prediction] | None = None,
) -> Evidence:
    """What the gate judges. Costs are those of the first engine that is asked for.

    Args:
        dossier: of the candidate.
        wanted: says at how many streams, and in which engines.
        size_bytes: of what would be published.
        licence: of it.
        predictions: of a draft.
    """
    trials: dict[EngineName, Trial] = {
        engine: trial for engine in wanted.engines for trial in dossier.trials if trial.engine == engine
    }
    best = max(predictions, key=lambda each: max(each.speed_ups.values())) if predictions else None
    cost, full_cost = _costs(dossier.comparison, trials, wanted)
    return Evidence(
        kept=None if dossier.comparison is None else dossier.comparison.kept,
        cost=cost,
        full_cost=full_cost,
        speed_ups=None if best is None else best.speed_ups,
        break_even=None if best is None else best.break_even,
        size_bytes=size_bytes,
        licence=licence,
        is_same_tokenizer=dossier.is_same_tokenizer,
        loads={engine: trial.fault for engine, trial in trials.items()},
    )


def _costs(
    comparison: Comparison | None, trials: Mapping[EngineName, Trial], wanted: Wanted
) -> tuple[Cost | None, Cost | None]:
    timed = trials.get(wanted.engines[0]) if wanted.engines else None
    if timed is None or comparison is None:
        return None, None
    return (
        _cost(comparison.candidate, timed.candidate, wanted.num_streams),
        _cost(comparison.teacher, timed.full, wanted.num_streams),
    )


def _cost(side: Side, tokens_per_s: Mapping[int, float], num_streams: int) -> Cost | None:
    rate = tokens_per_s.get(num_streams)
    return Cost(1 / rate, side.mean_tokens, side.score.value) if rate else None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else repr(error)
