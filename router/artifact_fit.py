"""From outcomes to an artifact: the model, and all that is said of it in the header. Offline, and pure.

The figures are held out twice. Near-duplicates are never on both sides of a fold; and, where there are domains enough,
a second time no domain is, which says what the figures are worth for tasks of another kind than the outcomes'.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from router.artifact_header import ArtifactHeader
from router.encoding import ENCODING_VERSION, feature_names
from router.fit import deal_domains, fit, has_domains
from router.fit_config import FitConfig, FitRefusedError
from router.fitted import UNKNOWN_WORDS, FittedModel
from router.held_out import HeldOut, hold_out
from router.histogram import Reference, reference
from router.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a table of outcomes came from."""

    data_sha256: str
    """Of the outcomes' file, unpacked."""
    models: Mapping[str, str] = field(default_factory=dict)
    """What each arm's engine called its model, where that is known."""
    selection: str | None = None
    """The part of the file that was taken; None for all of it."""
    embedding: str | None = None
    """The name of the embedding that the prompts were read with."""


def num_steps(prepared: Prepared, config: FitConfig) -> int:
    """How often `fit_artifact` will call `on_step`."""
    times_held_out = 2 if has_domains(prepared.table, config) else 1
    return (config.num_folds + 1) * (1 + config.num_folds * times_held_out)


def fit_artifact(
    prepared: Prepared, config: FitConfig, origin: Origin, *, on_step: Callable[[], None] = lambda: None
) -> tuple[FittedModel, ArtifactHeader]:
    """The model of these outcomes, and its header. The same outcomes, configuration and origin give the same.

    Raises:
        FitRefusedError: too few outcomes, or of one class only.
    """
    recipe = {
        "step": "route fit",
        "selection": origin.selection,
        "embedding": origin.embedding,
        **asdict(config),
    }
    version = f"router-{_digest(origin.data_sha256, recipe)[:12]}"
    model = fit(prepared, config, version=version, on_step=on_step)
    held_out = hold_out(prepared, config, on_step=on_step)
    elsewhere = _hold_out_domains(prepared, config, on_step)
    return model, ArtifactHeader(
        version=version,
        arms=model.arms,
        num_prompts=len(prepared.table),
        num_groups=len(np.unique(prepared.groups)),
        data_sha256=origin.data_sha256,
        recipe=recipe,
        metrics=_metrics(held_out, elsewhere),
        models=dict(origin.models),
        embedding=origin.embedding,
        figures=held_out.figures(_generator(config)),
        new_domain_figures={} if elsewhere is None else elsewhere.figures(_generator(config)),
        feature_references=_feature_references(prepared, held_out),
        score_references=_score_references(held_out),
    )


def _hold_out_domains(prepared: Prepared, config: FitConfig, on_step: Callable[[], None]) -> HeldOut | None:
    if not has_domains(prepared.table, config):
        return None
    try:
        return hold_out(prepared, config, fold_of=deal_domains(prepared, config), on_step=on_step)
    except FitRefusedError:
        return None  # some domains have nearly all successes, or failures: nothing can be said of new ones


def _generator(config: FitConfig) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(config.seed))


def _digest(data_sha256: str, recipe: Mapping[str, Any]) -> str:
    said = json.dumps([data_sha256, ENCODING_VERSION, recipe], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _metrics(held_out: HeldOut, elsewhere: HeldOut | None) -> dict[str, float]:
    figures = {"apgr": held_out.apgr(), "supported_share": held_out.supported_share}
    if elsewhere is not None:
        figures |= {
            "new_domain_apgr": elsewhere.apgr(),
            "new_domain_supported_share": elsewhere.supported_share,
        }
    return {name: value for name, value in figures.items() if value is not None}


def _feature_references(prepared: Prepared, held_out: HeldOut) -> dict[str, Reference]:
    features = np.stack([encoded.features for encoded in prepared.encoded]).astype(float)
    columns = zip(feature_names(), features.T, strict=True)
    references = {name: reference(column.tolist()) for name, column in columns}
    return references | {UNKNOWN_WORDS: reference(held_out.unknown_shares.tolist())}


def _score_references(held_out: HeldOut) -> dict[str, Reference]:
    columns = zip(held_out.table.arms, held_out.probabilities.T, strict=True)
    return {arm: reference(column.tolist()) for arm, column in columns}
