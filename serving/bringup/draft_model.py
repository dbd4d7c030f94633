"""The file of a model that drafts for a tier's: made first, where the registry holds it as a difference."""

from __future__ import annotations

from pathlib import Path

from serving.bringup.materialize import engine_model
from serving.bringup.progress import Report
from serving.engines.llamacpp_draft import ModelDraft, NgramDraft
from serving.registry.store import Store


def draft_model(store: Store, draft: NgramDraft | ModelDraft | None, report: Report) -> Path | None:
    """What the engine is to load beside its model; None where no model drafts.

    Raises:
        RegistryError, DeltaError: as `engine_model`.
    """
    if not isinstance(draft, ModelDraft):
        return None
    return engine_model(store, draft.model, report, quantization=draft.quantization)
