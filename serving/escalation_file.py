"""The file of an escalation model, which is written beside the outcomes that it was fitted on."""

from __future__ import annotations

from importlib.resources import files

import orjson

from router.escalation import EscalationModel, model_from_members
from serving.escalation_settings import EscalationSettings
from serving.settings_sources import SettingsError

RELEASED = "released_escalation.json"
"""In `router/data`: fitted on the outcomes of the released tiers."""


def load_escalation(settings: EscalationSettings) -> EscalationModel:
    """The model, without what looks at more tokens than may be held; an empty one where nothing is escalated.

    Raises:
        SettingsError: the file is not there, or is no such model.
    """
    if not settings.enabled:
        return EscalationModel(())
    path = settings.model or files("router") / "data" / RELEASED
    try:
        members = orjson.loads(path.read_bytes())
        if not isinstance(members, dict):
            raise ValueError("no escalation model")
        return model_from_members(members).within(settings.max_tokens)
    except (OSError, ValueError) as error:
        raise SettingsError(f"`router.escalation.model` cannot be used: {error}") from None
