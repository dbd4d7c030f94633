"""The released policy: an artifact that comes with the code as one directory with its manifest, published as it is.

It is the directory that `tierwise train publish` left in a registry, copied. Where there is none, the tiers are the
base model itself.
"""

from __future__ import annotations

import shutil

from serving.bringup.packaged import PackagedModel
from serving.bringup.progress import Report
from serving.registry.artifact import Artifact, read_released
from serving.registry.manifest import Description
from serving.registry.store import Store


def released_policy(model: PackagedModel) -> Artifact | None:
    """The artifact in the model's `policy` directory; its files are not looked at.

    Raises:
        CorruptArtifactError: the directory is there, and its manifest is damaged.
    """
    if model.policy is None or not model.policy.is_dir():
        return None
    return read_released(model.policy)


def publish_policy(store: Store, released: Artifact, report: Report) -> Artifact:
    """Publish it under the version that it has, where it is missing.

    Raises:
        CorruptArtifactError: a file is not what was released.
        UnknownReferenceError: it was trained from another base than the registry has.
    """
    if store.directory(released.reference).is_dir():
        return store.load(released.reference)
    released.check()
    manifest = released.manifest
    said = manifest.model_dump(include=set(Description.model_fields))
    with store.stage() as staged:
        for file in manifest.files:
            target = staged / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(released.directory / file.path, target)
        artifact = store.commit(staged, Description.model_validate(said), version=manifest.version)
    report.say(f"published {artifact.reference}")
    return artifact
