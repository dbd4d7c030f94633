"""The released router artifact: published with the tiers that it was fitted on, and with no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from router.artifact import from_bytes
from serving.bringup.materialize import describe_materialized
from serving.bringup.packaged import CHAT_TEMPLATE, SMOLLM2
from serving.bringup.policy_release import released_policy
from serving.bringup.released import TIERS
from serving.bringup.router_release import FITTED_ON, RELEASED_FILE, release_router
from serving.registry.manifest import Description, Parent, digest
from serving.registry.reference import ArtifactReference
from serving.registry.store import Store


@pytest.fixture
def tiers(store: Store, tmp_path: Path) -> dict[str, ArtifactReference]:
    """Tiers with the released recipes, though not their bytes."""
    return publish_tiers(store, tmp_path, CHAT_TEMPLATE.read_text(encoding="utf-8"))


def publish_tiers(store: Store, place: Path, chat_template: str) -> dict[str, ArtifactReference]:
    source = place / "model.gguf"
    source.write_text("weights")
    base = store.publish(source, Description(kind="base", name="base", licence="MIT", format="gguf")).manifest
    packaged = base.files[0].model_copy(update={"sha256": SMOLLM2.gguf_sha256})
    base = base.model_copy(update={"files": (packaged,)})
    policy = released_policy(SMOLLM2)
    assert policy is not None
    described = {
        tier.alias.name: describe_materialized(policy.manifest, base, tier.quantization, chat_template)
        for tier in TIERS
    }
    return {
        # the policy itself is not in this registry
        arm: store.publish(source, each.model_copy(update={"parents": ()})).reference
        for arm, each in described.items()
    }


def test_it_was_fitted_on_the_tiers_that_are_released(
    store: Store, tiers: dict[str, ArtifactReference]
) -> None:
    """Who changes how the tiers are made has to collect and fit again, and then to change `FITTED_ON`."""
    recipes = {
        arm: digest(store.load(reference, verify=False).manifest.recipe) for arm, reference in tiers.items()
    }
    assert recipes == FITTED_ON


def test_published_once_with_its_tiers_as_parents(
    store: Store, tiers: dict[str, ArtifactReference], report: Any
) -> None:
    """The manifest names the tiers in the roles of their arms, the outcomes and the figures; twice is once."""
    reference = release_router(store, tiers, report)
    assert reference is not None
    manifest = store.load(reference).manifest
    _, header = from_bytes(RELEASED_FILE.read_bytes())
    assert manifest.kind == "router"
    assert set(manifest.parents) == {
        Parent(name=tier.name, version=tier.version, role=arm) for arm, tier in tiers.items()
    }
    assert manifest.data_sha256 == header.data_sha256
    assert manifest.metrics["held out"]["apgr"] == header.metrics["apgr"]
    assert release_router(store, tiers, report) == reference
    assert len([each for each in store.references() if each.name == "router"]) == 1


def test_not_published_with_other_tiers(store: Store, tmp_path: Path, report: Any) -> None:
    """With another chat template, or one tier only, there are no outcomes of them, and nothing is published."""
    others = publish_tiers(store, tmp_path, "another template")
    assert release_router(store, others, report) is None
    assert release_router(store, {"fast": others["fast"]}, report) is None
