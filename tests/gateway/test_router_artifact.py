"""Which difficulty model is taken: what is named, or what was fitted on these models, and none in silence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.artifact import to_bytes
from router.artifact_header import ArtifactHeader
from router.boosting import Trees
from router.calibration import Isotonic, Line
from router.encoding import Columns, feature_names
from router.fitted import ArmModel, FittedModel, Scorer
from router.ngrams import NUM_BUCKETS
from serving.bringup.router_release import describe_router, publish_router
from serving.gateway.router_artifact import load_difficulty, tiers_fitted_on
from serving.registry.errors import UnknownReferenceError
from serving.registry.manifest import Description, Parent
from serving.registry.reference import ArtifactReference, parse_alias
from serving.registry.store import Store
from serving.settings import Settings
from serving.settings_sources import SettingsError

PRICE = {"input": 1.0, "output": 1.0}


def toy_model(arms: tuple[str, ...], embed: Any = None) -> FittedModel:
    """A model that says the same of every request."""
    width = len(feature_names())
    columns = Columns(
        feature_mean=np.zeros(width, dtype=np.float32),
        feature_scale=np.zeros(width, dtype=np.float32),
        word_idf=np.zeros(NUM_BUCKETS, dtype=np.float32),
        character_idf=np.zeros(NUM_BUCKETS, dtype=np.float32),
    )
    no_trees = Trees(
        np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3), np.float32), np.zeros((0, 8), np.float32)
    )
    arm = ArmModel(
        line=Line(1.0, 0.0), trees=no_trees, calibration=Isotonic(np.zeros(1), np.full(1, 0.5)), tokens=None
    )
    return FittedModel(
        version="toy-1",
        arms=arms,
        scorer=Scorer(
            columns,
            np.zeros((columns.num, len(arms)), dtype=np.float32),
            np.zeros(len(arms), dtype=np.float32),
        ),
        by_arm=(arm,) * len(arms),
        most_unknown=1.0,
        embed=embed,
    )


def header(arms: tuple[str, ...] = ("fast", "full"), **members: Any) -> ArtifactHeader:
    return replace(
        ArtifactHeader(
            version="toy-1",
            arms=arms,
            num_prompts=300,
            num_groups=300,
            data_sha256="0" * 64,
            recipe={"step": "route fit"},
            metrics={},
            models={arm: f"{arm}-model" for arm in arms},
        ),
        **members,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "registry")


@pytest.fixture
def tiers(store: Store, tmp_path: Path) -> dict[str, ArtifactReference]:
    """Two published tiers, whose files are named after their models, under fast@stable and full@stable."""
    published = {}
    for name in ("fast", "full"):
        source = tmp_path / f"{name}-model.gguf"
        source.write_text(name)
        description = Description(kind="base", name=name, licence="MIT", format="gguf")
        published[name] = store.publish(source, description).reference
        store.aliases.point(parse_alias(f"{name}@stable"), published[name], by="test")
    return published


@pytest.fixture
def publish(store: Store) -> Callable[..., ArtifactReference]:
    """Publish a router artifact as router@stable."""

    def make(*parents: Parent, **members: Any) -> ArtifactReference:
        said = header(**members)
        data = to_bytes(toy_model(said.arms), said)
        description = describe_router(said, name="router", parents=parents, licence="MIT")
        published = publish_router(store, data, description).reference
        store.aliases.point(parse_alias("router@stable"), published, by="test")
        return published

    return make


def settings(tmp_path: Path, artifact: str = "auto", **models: str) -> Settings:
    models = models or {"fast": "fast@stable", "full": "full@stable"}
    return Settings.model_validate(
        {
            "home": str(tmp_path),
            "tiers": {
                name: {"model": model, "engine": {"type": "llamacpp"}, "price": PRICE}
                for name, model in models.items()
            },
            "router": {"artifact": artifact},
        }
    )


def role(reference: ArtifactReference, arm: str) -> Parent:
    return Parent(name=reference.name, version=reference.version, role=arm)


def test_without_any_the_heuristic_decides(store: Store, tmp_path: Path) -> None:
    """A first start with tiers of one's own works, and says by what it decides and why."""
    loaded = load_difficulty(settings(tmp_path), store)
    assert loaded.header is None
    assert loaded.told == f"{loaded.model.version}, not calibrated (there is no router@stable)"


def test_auto_takes_what_was_fitted_on_these_tiers(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference], publish: Callable[..., Any]
) -> None:
    """Where the versions that it was fitted on are recorded they are compared; else the names of the models are."""
    for parents in ([role(reference, arm) for arm, reference in tiers.items()], []):
        publish(*parents)
        loaded = load_difficulty(settings(tmp_path), store)
        assert loaded.model.version == "toy-1"
        assert loaded.header == header()
        assert loaded.told == "router@stable, toy-1, fitted on 300 prompts"


def test_auto_leaves_what_was_fitted_on_other_weights(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference], publish: Callable[..., Any]
) -> None:
    """The same arms on another version, or on a file of another name, get the heuristic, and are told so."""
    publish(*(role(reference, arm) for arm, reference in tiers.items()))
    store.aliases.point(parse_alias("full@stable"), tiers["fast"], by="ann")
    moved = load_difficulty(settings(tmp_path), store)
    assert moved.header is None
    assert f"full serves {tiers['fast']}, and it was fitted on {tiers['full']}" in moved.told
    publish()
    (tmp_path / "own.gguf").write_text("mine")
    own = load_difficulty(settings(tmp_path, fast="fast@stable", full=str(tmp_path / "own.gguf")), store)
    assert own.header is None
    assert "full serves own, and it was fitted on full-model" in own.told


def test_auto_leaves_what_does_not_know_an_arm(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference], publish: Callable[..., Any]
) -> None:
    """A third arm without outcomes gets the heuristic for all three, since its forecasts must compare."""
    publish(arms=("fast",))
    loaded = load_difficulty(settings(tmp_path), store)
    assert loaded.header is None
    assert "it knows the arms fast and not full" in loaded.told


def test_auto_leaves_what_this_version_cannot_read(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference], publish: Callable[..., Any]
) -> None:
    """An artifact for another encoding, as after an upgrade, gets the heuristic with the reason."""
    publish(encoding_version="structure-0")
    loaded = load_difficulty(settings(tmp_path), store)
    assert loaded.header is None
    assert "fitted on structure-0" in loaded.told


def test_a_named_artifact_is_taken_or_the_start_ends(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference], publish: Callable[..., Any]
) -> None:
    """By version, alias or path; what does not fit is an error with the remedy, never the heuristic instead."""
    reference = publish(arms=("fast", "full"))
    path = tmp_path / "mine.npz"
    path.write_bytes(to_bytes(toy_model(("fast", "full")), header()))
    for name in (str(reference), "router@stable", str(path)):
        assert load_difficulty(settings(tmp_path, name), store).model.version == "toy-1"
    publish(arms=("fast",))
    with pytest.raises(SettingsError, match=r"knows the arms fast and not full; collect outcomes.*heuristic"):
        load_difficulty(settings(tmp_path, "router@stable"), store)
    with pytest.raises(SettingsError, match="is a base and no router artifact"):
        load_difficulty(settings(tmp_path, "fast@stable"), store)
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_difficulty(settings(tmp_path, "./nowhere.npz"), store)
    with pytest.raises(UnknownReferenceError, match="router@canary"):
        load_difficulty(settings(tmp_path, "router@canary"), store)
    path.write_bytes(b"PK")
    with pytest.raises(SettingsError, match="not a router artifact"):
        load_difficulty(settings(tmp_path, str(path)), store)


def test_a_named_artifact_of_other_weights_is_warned_of(
    store: Store,
    tmp_path: Path,
    tiers: dict[str, ArtifactReference],
    publish: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who names an artifact vouches for it; the log says what speaks against it."""
    publish(models={"fast": "fast-model", "full": "another"})
    with caplog.at_level(logging.WARNING):
        loaded = load_difficulty(settings(tmp_path, "router@stable"), store)
    assert loaded.model.version == "toy-1"
    assert "full serves full-model, and it was fitted on another" in caplog.text


def test_heuristic_by_name(store: Store, tmp_path: Path, publish: Callable[..., Any]) -> None:
    """`heuristic` is taken whatever is published."""
    publish()
    assert load_difficulty(settings(tmp_path, "heuristic"), store).header is None


def test_external_tiers_are_compared_by_the_name_they_declare(
    store: Store, tmp_path: Path, publish: Callable[..., Any]
) -> None:
    """An external tier whose model is not named might serve anything, so that auto leaves the artifact."""
    publish(arms=("fast",))

    def external(**engine: str) -> Settings:
        tier = {"engine": {"type": "external", "urls": ["http://127.0.0.1:1"], **engine}, "price": PRICE}
        return Settings.model_validate({"home": str(tmp_path), "tiers": {"fast": tier}})

    assert load_difficulty(external(model="fast-model"), store).header is not None
    assert "fast serves a model without a name" in load_difficulty(external(), store).told


def test_the_tiers_fitted_on_are_found_by_their_models(
    store: Store, tmp_path: Path, tiers: dict[str, ArtifactReference]
) -> None:
    """Published tiers that serve the models of the outcomes become parents; another model, or a path, does not."""
    models = {"fast": "fast-model", "full": "full-model", "gone": "x"}
    found = tiers_fitted_on(models, settings(tmp_path), store)
    assert {parent.role: parent.reference for parent in found} == tiers
    assert tiers_fitted_on({"fast": "another"}, settings(tmp_path), store) == ()
    path = str(tmp_path / "fast-model.gguf")
    assert tiers_fitted_on({"fast": "fast-model"}, settings(tmp_path, fast=path), store) == ()


def test_a_policy_goes_by_the_name_of_what_is_made_of_it(store: Store, tmp_path: Path) -> None:
    """A tier that is published as a difference is known by what its engine calls it, in the tier's quantisation."""
    source = tmp_path / "weights.delta"
    source.write_text("difference")
    description = Description(kind="policy", name="policy", licence="MIT", format="layers-delta-1")
    published = store.publish(source, description).reference
    told = settings(tmp_path, fast=str(published), full=str(published))
    models = {"fast": "policy.Q8_0", "full": "policy.Q4_0"}  # the tiers are in Q8_0
    assert tiers_fitted_on(models, told, store) == (role(published, "fast"),)
