"""Before and after a refit: what decided until now, and the new artifact, on the same outcomes.

The new artifact's figures are held out. What decided before was never fitted on these tiers; but it may have been on
these prompts, asked of others, which flatters it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from router.arms import named_arms
from router.artifact import from_bytes
from router.artifact_header import ArmFigures, ArtifactError, ArtifactHeader
from router.difficulty import DifficultyModel
from router.held_out import HeldOut
from router.outcome_table import OutcomeTable
from serving.gateway.embedding import find_embedder
from serving.gateway.router_artifact import AUTO, Loaded, load_difficulty
from serving.registry.errors import RegistryError
from serving.registry.reference import AliasReference
from serving.registry.store import Store
from serving.settings import Settings
from serving.settings_sources import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Something that decided until now."""

    name: str
    model: DifficultyModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one model makes of the outcomes."""

    name: str
    apgr: float | None
    """None where neither arm is better."""
    figures: dict[str, ArmFigures]


def standing(settings: Settings, store: Store, alias: AliasReference | None) -> list[Before]:
    """What a gateway that starts now would decide by, and what the alias points at where that is something else."""
    loaded = decider(settings, store)
    found = [Before(name=loaded.told, model=loaded.model)]
    entry = None if alias is None else store.aliases.get(alias)
    if alias is None or entry is None or entry.target is None:
        return found
    try:
        model, header = from_bytes(store.load(entry.target).weights.read_bytes(), find_embedder)
    except ArtifactError:
        return found  # of another version: nobody can decide by it
    knows = all(arm.name in header.arms for arm in settings.resolved_arms)
    if knows and header.version != loaded.model.version:
        found.append(Before(name=f"{alias} until now, {header.version}", model=model))
    return found


def decider(settings: Settings, store: Store) -> Loaded:
    """What `[router] artifact` comes to; what `auto` would, where it names something that cannot be used any more.

    To mend that is what a refit is for, so it does not end one.
    """
    try:
        return load_difficulty(settings, store)
    except (SettingsError, RegistryError) as error:
        router = settings.router.model_copy(update={"artifact": AUTO})
        loaded = load_difficulty(settings.model_copy(update={"router": router}), store)
        return replace(loaded, told=f"{loaded.told}; as configured it would not start: {error}")


def row_of(before: Before, table: OutcomeTable) -> Row:
    """How it would have done on these outcomes."""
    arms = named_arms(table.arms)
    views = [table.view(place) for place in range(len(table))]
    forecasts = [before.model.forecast(view, arms) for view in views]
    seen = HeldOut(
        table,
        np.array([[one[arm].success_probability for arm in table.arms] for one in forecasts]),
        unknown_shares=np.zeros(len(table)),
        supported_share=float(
            np.mean([all(each.is_supported for each in one.values()) for one in forecasts])
        ),
    )
    generator = np.random.Generator(np.random.PCG64(0))
    return Row(name=before.name, apgr=seen.apgr(), figures=seen.figures(generator))


def fitted_row(header: ArtifactHeader) -> Row:
    """The new artifact, by its own header."""
    return Row(
        name=f"{header.version}, held out", apgr=header.metrics.get("apgr"), figures=dict(header.figures)
    )
