"""Finds the domains: every module below a package that assigns `DOMAIN` or `DOMAINS` at its top level.

Whether it does is read from its source, so a module that defines no domain is not imported, and nothing is until the
first domain is asked for. Dropping a file in is all that registration takes.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from train.domains.base import Domain, Family

PACKAGE: Final = "train.domains"
_MARKS: Final = frozenset({"DOMAIN", "DOMAINS"})


class UnknownDomainError(LookupError):
    """There is no domain of that name."""


class DuplicateDomainError(ValueError):
    """Two domains bear one name."""


@cache
def domains(package: str = PACKAGE) -> Mapping[str, Domain]:
    """All domains by name, in alphabetical order.

    Raises:
        DuplicateDomainError: names both modules.
    """
    found = _found(package)
    return MappingProxyType({name: found[name][0] for name in sorted(found)})


def module_of(domain: Domain, package: str = PACKAGE) -> str:
    """The module that defines the domain; of one that is not in the package, the module of its class."""
    found = _found(package).get(domain.name)
    return found[1] if found is not None and found[0] is domain else type(domain).__module__


def get(name: str) -> Domain:
    """The domain of this name.

    Raises:
        UnknownDomainError: the message names the nearest.
    """
    known = domains()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`tierwise train domains list` names them"
        raise UnknownDomainError(f"no domain {name!r}; {hint}")
    return known[name]


def by_family() -> Mapping[Family, tuple[Domain, ...]]:
    """Domains under their family, families in the order of their definition; those without a domain are absent."""
    grouped = {family: tuple(d for d in domains().values() if d.family == family) for family in Family}
    return {family: members for family, members in grouped.items() if members}


def modules(package: str = PACKAGE) -> tuple[str, ...]:
    """The modules below `package`, subpackages included, that define a domain; none is imported but the package."""
    roots = {Path(root).resolve() for root in importlib.import_module(package).__path__}
    return tuple(sorted({module for root in roots for module in _defining(root, package)}))


@cache
def _found(package: str) -> Mapping[str, tuple[Domain, str]]:
    """By name: the domain and its module."""
    found: dict[str, tuple[Domain, str]] = {}
    for module in modules(package):
        for domain in _defined(module):
            if domain.name in found:
                raise DuplicateDomainError(
                    f"domain {domain.name!r} is defined in {found[domain.name][1]} and in {module}; rename one"
                )
            found[domain.name] = (domain, module)
    return found


def _defining(root: Path, package: str) -> Iterator[str]:
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if _assigns(ast.parse(path.read_bytes(), str(path))):
            yield ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _assigns(module: ast.Module) -> bool:
    targets = (
        target
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return any(isinstance(target, ast.Name) and target.id in _MARKS for target in targets)


def _defined(module: str) -> tuple[Domain, ...]:
    attributes = vars(importlib.import_module(module))
    one = (attributes["DOMAIN"],) if "DOMAIN" in attributes else ()
    return (*one, *attributes.get("DOMAINS", ()))
