"""The tiers of a frontier: which models they are, what decides between them, and a gateway on them for one turn.

Each turn gets a gateway and engines of its own. An engine that had answered a prompt before would have it in its cache,
and its time to the first token would be that of a repetition; and a budget that was held before would still be repaid.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from loadtests.child_process import ChildError, child_process, log_tail
from loadtests.tuning.servers import tethered

START_TIMEOUT_S: Final = 900.0
"""A policy may have to be made whole before its engine starts."""
POLL_S: Final = 0.05
STABLE: Final = "router@stable"
_URL: Final = re.compile(r"tierwise serves on (http://\S+)/v1")
_ASIDE: Final = ("gateway.require_key=false", "shadow.share=0", "router.exploration_share=0")
"""What would need a key, or take the machine or the choice from what is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is measured."""

    models: Mapping[str, str]
    """Tier → the version that its alias points at now, or how else the settings name its model."""
    data_sha256: str | None
    """Of the outcomes that the configured router was fitted on; None where it is the heuristic."""
    options: tuple[str, ...]
    """Of `tierwise serve`: the operator's, with those versions in place of aliases."""
    registry: Path


def subject_of(options: Sequence[str]) -> Subject:
    """What these options of `tierwise serve` name.

    Raises:
        ChildError: they make no sense, or name a model or a router that is not there.
    """
    settings = tomllib.loads(_said("serve", "--print-config", *options))
    home = settings["home"]
    models, pinned = {}, list(options)
    for name, tier in settings["tiers"].items():
        model = tier.get("model") or tier["engine"].get("model") or " ".join(tier["engine"].get("urls", ()))
        if "@" in model and tier["engine"]["type"] == "llamacpp":
            model = _shown(model, home)["reference"]
            pinned += ["--set", f"tiers.{name}.model={model}"]
        models[name] = model
    return Subject(
        models=models,
        data_sha256=_fitted_on(settings["router"]["artifact"], home),
        options=tuple(pinned),
        registry=Path(home) / "registry",
    )


@contextlib.contextmanager
def gateway_on(subject: Subject, home: Path, *, target: float | None) -> Iterator[str]:
    """The URL of a gateway on the tiers, told to hold a share on the strongest one where `target` says so.

    Args:
        subject: what is measured.
        home: an empty directory, for its ledger and log.
        target: the share.

    Raises:
        ChildError: it did not start; the message has the end of its log.
    """
    log = home / "gateway.log"
    (home / "registry").symlink_to(subject.registry.absolute())
    assignments = [*_ASIDE, *_budget(target), f"ledger.url={_ledger_of(home)}"]
    argv = [sys.executable, "-P", "-m", "tierwise", "serve", *subject.options]
    argv += ["--home", str(home), "--host", "127.0.0.1", "--port", "0", "--log-format", "text"]
    argv += [word for assignment in assignments for word in ("--set", assignment)]
    with child_process(tethered(argv), log=log) as child:
        yield _until_up(child, log)


def decisions(home: Path) -> dict[str, dict[str, Any]]:
    """Request id → what the ledger has of it, once the gateway has ended and so written all."""
    out = home / "decisions.jsonl"
    _said("ledger", "export", "--url", _ledger_of(home), "--out", str(out))
    return {record["request_id"]: record for record in map(orjson.loads, out.read_bytes().splitlines())}


def _ledger_of(home: Path) -> str:
    return f"sqlite:///{home / 'ledger.sqlite'}"


def _budget(target: float | None) -> list[str]:
    if target is None:
        return []
    leaves = {"metric": "full_share", "target": target, "mode": "auto", "quality_floor": 0.0}
    return [f"budget.{leaf}={value}" for leaf, value in (leaves | {"price_of_compute": 0.0}).items()]


def _until_up(child: subprocess.Popen[bytes], log: Path) -> str:
    give_up_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_s:
        if match := _URL.search(log.read_text(errors="replace")):
            return match.group(1)
        if child.poll() is not None:
            raise ChildError(f"the gateway ended with status {child.returncode}{log_tail(log)}")
        time.sleep(POLL_S)
    raise ChildError(f"the gateway was not up within {START_TIMEOUT_S:g} s{log_tail(log)}")


def _fitted_on(artifact: str, home: str) -> str | None:
    """The hash of the outcomes behind `[router] artifact`; None of the heuristic, which `auto` is without one."""
    if artifact == "heuristic":
        return None
    if artifact != "auto":
        return str(_shown(artifact, home)["data_sha256"])
    try:
        return str(_shown(STABLE, home)["data_sha256"])
    except ChildError:
        return None


def _shown(reference: str, home: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(_said("registry", "show", reference, "--json", "--home", home))
    return shown


def _said(*argv: str) -> str:
    """What a `tierwise` command prints.

    Raises:
        ChildError: it failed; the message is its last line.
    """
    command = [sys.executable, "-P", "-m", "tierwise", *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ChildError((lines or [f"{argv[0]} failed"])[-1].removeprefix("tierwise: "))
    return done.stdout
