"""The released policy and its student: artifacts that come with the code, each as one directory with its manifest.

They are directories that `tierwise train publish` and `tierwise distill publish` left in a registry, copied, and are
published as they are. Where there is no student, every tier is made of the policy; where there is no policy either, of
the base model itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

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
    return _released(model.policy)


def released_student(model: PackagedModel) -> Artifact | None:
    """The same of its `student` directory."""
    return _released(model.student)


def publish_released(store: Store, released: Artifact, report: Report) -> Artifact:
    """Publish it under the version that it has, where it is missing.

    Raises:
        CorruptArtifactError: a file is not what was released.
        UnknownReferenceError: it was made from another base, or a student of another policy, than the registry has.
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


def _released(directory: Path | None) -> Artifact | None:
    return read_released(directory) if directory is not None and directory.is_dir() else None
