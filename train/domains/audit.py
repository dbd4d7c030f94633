"""The gate before training: a domain whose audit has not passed, or that has changed since, is refused.

`tierwise train domains audit` writes `audit.json`, one record for each domain, and `quarantine.json`, the reasons of
those that failed. A record holds a digest of the domain's source, so that a change asks for a new audit. What a
constant answer earns is the domain's baseline: scores are reported above it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from train.domains import catalog
from train.domains.base import Domain

RECORDS: Final = Path(__file__).with_name("audit.json")
QUARANTINE: Final = Path(__file__).with_name("quarantine.json")
_APART: Final = frozenset(
    {
        "train.domains.base",
        "train.domains.catalog",
        "train.domains.item_json",
        "train.domains.reasoning_gym_levels",
    }
)
"""Modules that are no part of a domain's source: contracts, and a table of which each domain has a row."""


@runtime_checkable
class Configured(Protocol):
    """A domain that is made from more than its source."""

    def configuration(self) -> str:
        """All that its items depend on beside: a row of a table, a version."""
        ...


class UnauditedError(ValueError):
    """A domain may not train: its audit failed, is missing, or is of other source."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One probe that a domain did not stand."""

    probe: str
    detail: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of so many answers were accepted."""

    num_accepted: int
    num_answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What an audit found."""

    domain: str
    source_sha256: str
    failures: tuple[Failure, ...]
    num_items: int = 0
    baseline: float = 0.0
    """The mean score of the best constant answer."""
    constant: str = ""
    """That answer, its first characters."""
    right: Tally = Tally(0, 0)
    """References: all are to be accepted."""
    wrong: Tally = Tally(0, 0)
    """References of other items: none is to be accepted, but where it happens to fit."""
    adversarial: Tally = Tally(0, 0)
    """Attacks, noise around the reference, echoes and odd text: none is to be accepted."""
    generate_s: float = 0.0
    """Of an item, on average."""
    verify_s: float = 0.0
    """Of a reference, on average."""

    @property
    def is_passed(self) -> bool:
        """Whether the domain may train."""
        return not self.failures


def audited(names: Iterable[str]) -> tuple[Domain, ...]:
    """The domains of these names, in their order, if every one may train.

    Raises:
        UnauditedError: names each that may not, and why.
        UnknownDomainError: there is none of that name.
    """
    wanted = [catalog.get(name) for name in names]
    refused = [f"{domain.name}: {reason}" for domain in wanted if (reason := refusal(domain))]
    if refused:
        raise UnauditedError(f"no domain trains unaudited; {'; '.join(refused)}")
    return tuple(wanted)


def passed() -> tuple[str, ...]:
    """The names of all domains that may train."""
    return tuple(name for name, domain in catalog.domains().items() if not refusal(domain))


def refusal(domain: Domain) -> str:
    """Why the domain may not train; empty if it may."""
    record = records().get(domain.name)
    again = f"run `tierwise train domains audit {domain.name}`"
    if record is None:
        return f"it was never audited; {again}"
    if record.source_sha256 != source_sha256(domain):
        return f"its source has changed since its audit; {again}"
    return "; ".join(f"{failure.probe}: {failure.detail}" for failure in record.failures)


def baseline_corrected(score: float, baseline: float) -> float:
    """A score above that of the best constant answer: 0 is no better than it, 1 is right, below 0 is worse.

    Of a baseline of 1 nothing can be told: 0.
    """
    return (score - baseline) / (1.0 - baseline) if baseline < 1.0 else 0.0


@cache
def records(path: Path = RECORDS) -> Mapping[str, Record]:
    """The committed records, by domain."""
    if not path.exists():
        return {}
    read: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return {name: _record(name, fields) for name, fields in read.items()}


def write(made: Iterable[Record], *, path: Path = RECORDS, quarantine: Path = QUARANTINE) -> None:
    """Put records beside those that are there, drop those of domains that are gone, and write the quarantine anew."""
    records.cache_clear()
    merged = {name: record for name, record in records(path).items() if name in catalog.domains()}
    merged |= {record.domain: record for record in made}
    ordered = {name: merged[name] for name in sorted(merged)}
    _write_json(path, {name: as_json(record) for name, record in ordered.items()})
    held = {
        name: [f"{failure.probe}: {failure.detail}" for failure in record.failures]
        for name, record in ordered.items()
        if not record.is_passed
    }
    _write_json(quarantine, held)
    records.cache_clear()


def as_json(record: Record) -> dict[str, Any]:
    """A record as it is kept, under its domain's name."""
    fields = asdict(record)
    del fields["domain"]
    fields["failures"] = [[failure.probe, failure.detail] for failure in record.failures]
    for key in ("right", "wrong", "adversarial"):
        fields[key] = [fields[key]["num_accepted"], fields[key]["num_answers"]]
    for key in ("baseline", "generate_s", "verify_s"):
        fields[key] = round(fields[key], 4)
    return fields


def source_sha256(domain: Domain) -> str:
    """Of the modules that the domain is written in, as parsed (comments and layout aside), and of its configuration."""
    digest = hashlib.sha256()
    for module in sorted(_modules(catalog.module_of(domain))):
        digest.update(f"{module}\n{_parsed(module)[1]}\n".encode())
    if isinstance(domain, Configured):
        digest.update(domain.configuration().encode())
    return digest.hexdigest()


def _modules(module: str) -> set[str]:
    """The module and what it imports, at any remove, from the rooms of domains and tools."""
    found: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(_parsed(name)[0])
    return found


@cache
def _parsed(module: str) -> tuple[tuple[str, ...], str]:
    """The modules of ours that it imports, and its syntax tree as text."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return (), ""
    tree = ast.parse(Path(spec.origin).read_bytes())
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    return tuple(name for name in imported if _is_ours(name)), ast.dump(tree)


def _is_ours(module: str) -> bool:
    if not module.startswith(("train.domains.", "train.tools.")) or module in _APART:
        return False
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a name inside a module, not a module inside a package
        return False


def _record(name: str, fields: dict[str, Any]) -> Record:
    tallies = {key: Tally(*fields[key]) for key in ("right", "wrong", "adversarial")}
    failures = tuple(Failure(*failure) for failure in fields["failures"])
    return Record(**{**fields, **tallies, "domain": name, "failures": failures})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
