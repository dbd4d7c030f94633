"""What a refit's outcomes are of: each arm's model as published, and how it was asked. It is kept beside them.

So a stopped refit goes on with its own outcomes, and with those of no other tiers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from serving.bringup.materialize import DELTA_FORMATS
from serving.commands.outcomes_file import OutcomesFileError
from serving.commands.route_collect_client import Sampling
from serving.engines.llamacpp import LlamaCppSettings
from serving.registry.artifact import measure
from serving.registry.durable import write_atomically
from serving.registry.manifest import Parent
from serving.registry.reference import PathReference, parse, parse_artifact
from serving.registry.store import Store
from serving.settings import Settings, TierSettings


class Answerer(BaseModel):
    """What answers for an arm, as far as it decides the answers; speed is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    """The version in the registry, a file with its SHA-256, or what a server calls its model."""
    quantization: str | None = None
    """Of what is made of a difference; None where the model is what it is."""
    chat_template_sha256: str | None = None
    request: dict[str, Any] = {}


class Subject(BaseModel):
    """All that outcomes of one file have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arms: dict[str, Answerer]
    max_tokens: int
    temperature: float

    @property
    def digest(self) -> str:
        """Twelve digits that name it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def difference(self, other: Subject) -> str | None:
        """In what way `other` is not this, for a person; None where it is."""
        if set(self.arms) != set(other.arms):
            return f"of the arms {', '.join(self.arms)}, and these are {', '.join(other.arms)}"
        for arm, before in self.arms.items():
            if (now := other.arms[arm]) != before:
                return f"where {arm} was {_told(before)}, and it is {_told(now)}"
        for name in ("max_tokens", "temperature"):
            old, new = self.model_dump()[name], other.model_dump()[name]
            if old != new:
                return f"asked with --{name.replace('_', '-')} {old}, and this is {new}"
        return None


def pinned(settings: Settings, store: Store) -> Settings:
    """The settings with the versions that aliases point at now, so that an alias that moves changes nothing midway.

    Raises:
        RegistryError: a tier's model is not in the registry.
    """
    tiers = {}
    for name, tier in settings.tiers.items():
        if tier.model is not None and not isinstance(parse(tier.model), PathReference):
            tier = tier.model_copy(update={"model": str(store.resolve(tier.model))})
        tiers[name] = tier
    return settings.model_copy(update={"tiers": tiers})


def subject_of(settings: Settings, store: Store, sampling: Sampling) -> Subject:
    """What these pinned settings would be asked for.

    Raises:
        RegistryError: there is no such file.
    """
    return Subject(
        arms={
            arm.name: _answerer(settings.tiers[arm.tier], arm.request, store)
            for arm in settings.resolved_arms
        },
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
    )


def parents_of(settings: Settings) -> Sequence[Parent]:
    """The artifacts of pinned tiers, each in the role of its arm; none for a file, or for somebody else's server."""
    found = []
    for arm in settings.resolved_arms:
        model = settings.tiers[arm.tier].model
        if model is not None and not isinstance(parse(model), PathReference):
            reference = parse_artifact(model)
            found.append(Parent(name=reference.name, version=reference.version, role=arm.name))
    return found


def refuse_others(outcomes: Path, subject: Subject) -> None:
    """Return where the file is of this, or nothing is in it yet.

    Raises:
        OutcomesFileError: it is of other tiers, or nobody knows of which.
    """
    if not outcomes.exists() or not outcomes.stat().st_size:
        return
    beside = _beside(outcomes)
    try:
        found = Subject.model_validate_json(beside.read_bytes())
    except FileNotFoundError:
        raise OutcomesFileError(
            f"{outcomes}: {beside.name}, which says what tiers it is of, is not beside it; name a new file with "
            f"--outcomes, or fit this one with `tierwise route fit {outcomes}`"
        ) from None
    except (OSError, ValidationError) as error:
        raise OutcomesFileError(
            f"{beside}: cannot be read: {error}; name a new file with --outcomes"
        ) from None
    if told := found.difference(subject):
        raise OutcomesFileError(f"{outcomes}: is {told}; leave --outcomes and --keep out, or name a new file")


def sign(outcomes: Path, subject: Subject) -> None:
    """Say beside the file what it is of. The caller has it open, so that nobody else writes it."""
    write_atomically(_beside(outcomes), subject.model_dump_json(indent=1).encode())


def told_of(subject: Subject) -> str:
    """The arms and who answers for each, in one line."""
    return ", ".join(f"{arm} ({_told(one)})" for arm, one in subject.arms.items())


def _answerer(tier: TierSettings, request: dict[str, Any], store: Store) -> Answerer:
    engine = tier.engine
    if not isinstance(engine, LlamaCppSettings):
        return Answerer(model=engine.model or " ".join(engine.urls), request=request)
    assert tier.model is not None, "settings ask for the model of an engine that is launched"
    model, quantization, reference = tier.model, None, parse(tier.model)
    if isinstance(reference, PathReference):
        path = store.model_path(model)
        model = f"{path} {measure(path.parent, path.name).sha256}"
    elif store.load(reference, verify=False).manifest.format in DELTA_FORMATS:
        quantization = engine.quantization
    template = engine.chat_template
    return Answerer(
        model=model,
        quantization=quantization,
        chat_template_sha256=None if template is None else measure(template.parent, template.name).sha256,
        request=request,
    )


def _told(answerer: Answerer) -> str:
    quantization = f" in {answerer.quantization}" if answerer.quantization else ""
    return f"{answerer.model}{quantization}" + (f" with {answerer.request}" if answerer.request else "")


def _beside(outcomes: Path) -> Path:
    return outcomes.with_suffix(".tiers.json")
