"""What the sub-verbs of `tierwise registry` do: parsed options and a store in, an exit status out."""

from __future__ import annotations

import argparse
import json
import os
import pwd
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serving.commands.registry_views import (
    Row,
    print_aliases,
    print_artifact,
    print_artifacts,
    print_history,
    print_json,
)
from serving.registry.aliases import Alias
from serving.registry.artifact import Artifact
from serving.registry.collection import collect_garbage
from serving.registry.errors import CorruptArtifactError, InvalidManifestError, UnknownReferenceError
from serving.registry.manifest import Description
from serving.registry.reference import ArtifactReference, parse_alias
from serving.registry.store import Store


def list_artifacts(args: argparse.Namespace, store: Store) -> int:
    """`list`: every version, damaged manifests included."""
    rows = []
    for reference in store.references():
        try:
            artifact: Artifact | CorruptArtifactError = store.load(reference, verify=False)
        except CorruptArtifactError as error:
            artifact = error
        rows.append(Row(reference, artifact, _aliases_of(store, reference)))
    if args.json:
        print_json([row.as_json() for row in rows])
    else:
        print_artifacts(rows)
    return 0


def show(args: argparse.Namespace, store: Store) -> int:
    """`show`: one version."""
    artifact = store.load(args.reference, verify=False)
    row = Row(artifact.reference, artifact, _aliases_of(store, artifact.reference))
    if args.json:
        print_json(row.as_json())
    else:
        print_artifact(artifact, row.aliases)
    return 0


def publish(args: argparse.Namespace, store: Store) -> int:
    """`publish`: a new version, and an alias for it where asked."""
    alias = (
        parse_alias(args.alias) if args.alias else None
    )  # a typing error is told before anything is copied
    artifact = store.publish(
        Path(args.source),
        _description(args, store),
        version=args.version,
        transfer="move" if args.move else "copy",
    )
    if alias is not None:
        store.aliases.point(alias, artifact.reference, by=_user(), reason=args.reason)
    row = Row(artifact.reference, artifact, _aliases_of(store, artifact.reference))
    if args.json:
        print_json(row.as_json())
    else:
        print(f"published {artifact.reference}" + (f", now {alias}" if alias else ""))
    return 0


def alias(args: argparse.Namespace, store: Store) -> int:
    """`alias`: set, remove or list."""
    if args.remove:
        name = parse_alias(args.remove)
        store.aliases.remove(name, by=_user(), reason=args.reason)
    elif args.assignment:
        text, equals, target = args.assignment.partition("=")
        name = parse_alias(text)
        if not equals:
            raise UnknownReferenceError(
                f"{name} to what? write {name}=name:version; `tierwise registry list` has them"
            )
        store.aliases.point(name, store.resolve(target), by=_user(), reason=args.reason)
    aliases = _all_aliases(store)
    if args.assignment or args.remove:
        aliases = {str(name): aliases[str(name)]}
    if args.json:
        print_json({text: _alias_json(found, with_history=args.history) for text, found in aliases.items()})
    elif args.history:
        print_history(aliases)
    else:
        print_aliases(aliases)
    return 0


def roll_back(args: argparse.Namespace, store: Store) -> int:
    """`rollback`: one target back."""
    name = parse_alias(args.alias)
    target = store.aliases.roll_back(name, by=_user(), reason=args.reason)
    if args.json:
        print_json({str(name): {"target": str(target)}})
    else:
        print(f"{name} is {target} again")
    return 0


def verify(args: argparse.Namespace, store: Store) -> int:
    """`verify`: 1 where anything is damaged, discarded or not."""
    references = [store.resolve(text) for text in args.references] or store.references()
    damage: dict[ArtifactReference, str] = {}
    for reference in references:
        try:
            store.load(reference)
        except CorruptArtifactError as error:
            damage[reference] = str(error)
            if args.discard:
                store.discard(reference)
        if not args.json:
            state = damage.get(reference, "whole")
            print(f"{reference}  {state}" + ("  [discarded]" if args.discard and reference in damage else ""))
    if args.json:
        print_json(
            [{"reference": str(reference), "damage": damage.get(reference)} for reference in references]
        )
    return 1 if damage else 0


def collect(args: argparse.Namespace, store: Store) -> int:
    """`gc`: remove, or say what would be removed."""
    collected = collect_garbage(
        store, keep_rollbacks=args.keep, min_age=timedelta(minutes=args.min_age), dry_run=args.dry_run
    )
    if args.json:
        print_json(
            {
                "removed": [str(reference) for reference in collected.artifacts],
                "size_bytes": collected.size_bytes,
                "abandoned": [path.name for path in collected.abandoned],
                "dry_run": args.dry_run,
            }
        )
        return 0
    verb = "would remove" if args.dry_run else "removed"
    for reference in collected.artifacts:
        print(f"{verb} {reference}")
    print(
        f"{verb} {len(collected.artifacts)} versions ({collected.size_bytes / 1e6:.1f} MB) and "
        f"{len(collected.abandoned)} staging directories of writers that died"
    )
    return 0


def _description(args: argparse.Namespace, store: Store) -> Description:
    try:
        return Description(
            kind=args.kind,
            name=args.name,
            parents=tuple(_parent(text, store) for text in args.parent),
            recipe=_recipe(args.recipe),
            data_sha256=args.data_sha256,
            tokenizer_sha256=args.tokenizer_sha256,
            licence=args.licence,
            format=args.format,
            quantization=args.quantization,
            metrics=_metrics(args.metric),
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = "--" + str(fault["loc"][0]).replace("_", "-")
        raise InvalidManifestError(f"{option}: {fault['msg']} (it is {fault['input']!r})") from None


def _parent(text: str, store: Store) -> Any:
    reference, equals, role = text.rpartition("=")
    if not equals:
        raise InvalidManifestError(
            f"--parent {text}: write it as REFERENCE=ROLE, for example base@stable=base"
        )
    resolved = store.resolve(reference)
    return {"name": resolved.name, "version": resolved.version, "role": role}


def _recipe(file: str | None) -> Any:
    if file is None:
        return {}
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidManifestError(f"--recipe {file}: {error.strerror}; name a JSON file") from None
    except ValueError as error:
        raise InvalidManifestError(f"--recipe {file}: not valid JSON: {error}") from None


def _metrics(texts: list[str]) -> dict[str, dict[str, float]]:
    metrics: dict[str, dict[str, float]] = {}
    for text in texts:
        path, _, value = text.partition("=")
        domain, _, metric = path.partition(".")
        try:
            metrics.setdefault(domain, {})[metric] = float(value)
        except ValueError:
            metric = ""
        if not domain or not metric:
            raise InvalidManifestError(
                f"--metric {text}: write it as DOMAIN.METRIC=VALUE, for example arithmetic.pass_at_1=0.42"
            )
    return metrics


def _all_aliases(store: Store) -> dict[str, Alias]:
    found = {str(name): store.aliases.get(name) for name in store.aliases.names()}
    return {text: alias for text, alias in found.items() if alias is not None}


def _alias_json(alias: Alias, *, with_history: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"target": str(alias.target) if alias.target else None}
    if with_history:
        shown["changes"] = [change.model_dump(mode="json") for change in alias.changes]
    return shown


def _aliases_of(store: Store, reference: ArtifactReference) -> list[str]:
    return [text for text, alias in _all_aliases(store).items() if alias.target == reference]


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"  # containers run under ids that nobody has named
