"""Publishes a student, a draft or a quantised model, if the gate lets it: else the registry stays as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from distill.dossier import Dossier, evidence, read_dossier, read_predictions
from distill.evaluate import Comparison
from distill.examine import Trying, examine
from distill.gate import Candidacy, Verdict, Wanted, judge
from distill.offer import Offer, offer
from distill.packing import Form
from distill.quantization.report import REPORT_NAME
from distill.questions import Questions
from distill.subject import weights_sha256
from serving.bringup.progress import Report
from serving.registry.artifact import Artifact
from serving.registry.reference import AliasReference
from serving.registry.store import Store
from train.publish import point

PUBLISHED_BY = "tierwise distill publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller lays down."""

    name: str
    alias: AliasReference | None = None
    licence: str | None = None
    """The base's, or else the teacher's, where None."""
    candidacy: Candidacy | None = None
    """Found out where None."""
    form: Form = field(default_factory=Form)
    wanted: Wanted = field(default_factory=Wanted)
    is_asked_again: bool = False
    """Whether scores are measured where `tierwise distill quantize` verified these weights."""
    evaluation: Path | None = None
    """What `evaluate --out` wrote of these weights; measured now where None."""
    predictions: Path | None = None
    """What the cost model wrote of a draft."""


def publish(
    candidate: Path,
    teacher: str,
    wishes: Wishes,
    store: Store,
    report: Report,
    *,
    questions: Callable[[], Questions],
    trying: Trying,
    on_verdict: Callable[[Verdict], None],
) -> Artifact:
    """Publish it, or refuse. The same weights with the same evaluation have the same version.

    Args:
        candidate: a run, a checkpoint's directory or a GGUF file.
        teacher: the full model, as `subject` opens it.
        wishes: the caller's.
        store: the registry.
        report: hears what happens.
        questions: asked where scores are wanted, and neither an evaluation nor `tierwise distill quantize` has them.
        trying: engines, tried where there is no evaluation.
        on_verdict: told it, whichever it is.

    Raises:
        RefusedError: the gate does not let it.
        RunError, CheckpointError, RegistryError, BringupError, EngineError: it could not be judged.
    """
    offered = offer(
        candidate,
        teacher,
        name=wishes.name,
        candidacy=wishes.candidacy,
        form=wishes.form,
        licence=wishes.licence,
        store=store,
        report=report,
    )
    if wishes.evaluation is not None:
        dossier = read_dossier(wishes.evaluation, weights_sha256(offered.measured, store, report))
    else:
        known = None if wishes.is_asked_again else _known(offered, teacher, store, report)
        is_asked = offered.candidacy is not Candidacy.DRAFT and known is None
        found = examine(
            offered.measured,
            teacher,
            store,
            report,
            questions=questions() if is_asked else None,
            trying=trying,
            on_side=lambda side: report.say(f"asking {side}"),
        )
        dossier = replace(found, comparison=found.comparison or known)
    verdict = judge(
        offered.candidacy,
        evidence(
            dossier,
            wishes.wanted,
            size_bytes=offered.size_bytes,
            licence=offered.licence,
            predictions=read_predictions(wishes.predictions) if wishes.predictions else None,
        ),
        wishes.wanted,
    )
    on_verdict(verdict)
    verdict.require()
    artifact = _commit(offered, dossier, store)
    report.say(f"published {artifact.reference}: {offered.size_bytes / 1e6:.1f} MB")
    if wishes.alias is not None:
        point(
            wishes.alias, artifact, store, report, by=PUBLISHED_BY, reason=f"{candidate.name} passed the gate"
        )
    return artifact


def _known(offered: Offer, teacher: str, store: Store, report: Report) -> Comparison | None:
    """Scores that were verified when it was quantised from this very teacher."""
    if offered.known is None:
        return None
    found = offered.known.comparison(weights_sha256(teacher, store, report))
    if found is not None:
        num_items = sum(domain.num_items for domain in found.candidate.domains)
        report.say(f"scores of {num_items} items are those of {REPORT_NAME} (--ask-again measures)")
    return found


def _commit(offered: Offer, dossier: Dossier, store: Store) -> Artifact:
    with store.stage() as staged:
        for name, path in offered.files.items():
            shutil.copyfile(path, staged / name)
        return store.commit(staged, offered.describe(metrics_of(dossier)))


def metrics_of(dossier: Dossier) -> dict[str, dict[str, float]]:
    """As a manifest has them: a row a domain, what is kept of all, and what engines made of it."""
    found: dict[str, dict[str, float]] = {}
    if (comparison := dossier.comparison) is not None:
        found |= comparison.by_domain()
        kept = comparison.kept.retention
        found["all"] = {"score": comparison.candidate.score.value, "teacher": comparison.teacher.score.value}
        if kept is not None:
            found["all"] |= {
                "retention": kept.value, "retention_low": kept.low, "retention_high": kept.high
            }  # fmt: skip
        if (near := comparison.nearness) is not None:
            found["nearness"] = {"mean_divergence": near.mean_divergence, "greedy_share": near.greedy_share}
    for trial in dossier.trials:
        sides = {"tokens_per_s": trial.candidate, "full_tokens_per_s": trial.full}
        found[trial.engine] = {
            f"{name}_{num_streams}": rate
            for name, rates in sides.items()
            for num_streams, rate in rates.items()
        }
    return {name: row for name, row in found.items() if row}


def refit_command(artifact: Artifact, alias: AliasReference | None) -> str | None:
    """What makes the router know a new tier. None for a draft, with which answers are what they were.

    An alias that a tier follows already needs no setting, and what decides now does not know the tier; any other is not
    served yet, and the fit is a candidate beside it.
    """
    if artifact.manifest.kind == "draft":
        return None
    if alias is not None and alias.label == "stable":
        return "tierwise route refit --publish router@stable"
    tier = alias.name if alias is not None else "fast"
    model = alias or artifact.reference
    return f"tierwise route refit --set tiers.{tier}.model={model} --publish router@candidate"
