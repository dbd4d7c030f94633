"""Says many domains in one line of a recipe: all that have passed their audit and are of some kinds.

A recipe whose `domains` is a table rather than a list is resolved when it is loaded, so that a run keeps the names that
it had. It is read by `train.recipe`; nothing here is loaded for a recipe that lists its domains.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from serving.engines.base import SettingsNode
from train.domains.base import Domain, Family


class AuditedSettings(SettingsNode):
    """Which domains, and what each of them gets."""

    families: tuple[Family, ...] = Field(min_length=1)
    """Of them, every domain that may train and whose items have no tools."""
    levels: tuple[int, ...] = (0, 1)
    """Those that a domain has."""
    max_prompt_characters: int = Field(8000, gt=0)
    """A level whose first item is longer is left out, and a domain without a level."""
    excluded: tuple[str, ...] = ()
    """Names."""


def selected(settings: AuditedSettings) -> list[dict[str, Any]]:
    """Entries of `domains`, by name; an item of each is made to see whether it fits."""
    from train.domains import audit, catalog

    chosen = [catalog.get(name) for name in audit.passed() if name not in settings.excluded]
    entries = []
    for domain in chosen:
        levels = _fitting(domain, settings) if domain.family in settings.families else []
        if levels:
            entries.append({"name": domain.name, "levels": levels})
    return entries


def _fitting(domain: Domain, settings: AuditedSettings) -> list[int]:
    items = [domain.item(0, 0, level) for level in settings.levels if level < domain.num_levels]
    if any(item.environment is not None for item in items):
        return []
    return [item.level for item in items if len(item.prompt) <= settings.max_prompt_characters]
