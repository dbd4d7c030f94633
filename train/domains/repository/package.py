"""A small generated package: a module for each step, one that runs them all, and a test."""

from __future__ import annotations

import difflib
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from train.domains.code.composing import Case, Composed, composed, loaded
from train.domains.code.steps import EDGES, INPUTS, Kind
from train.transcript import JsonValue

NUM_CASES: Final = 10
RUN: Final = "run"
RUNNER: Final = "pipeline"
CONTEXT_LINES: Final = 2
_PACKAGES: Final = (
    "shop",
    "fleet",
    "garden",
    "library",
    "weather",
    "kitchen",
    "harbour",
    "museum",
    "bakery",
    "railway",
)
_MODULES: Final = ("clean", "scale", "order", "pick", "shift", "trim", "blend", "level", "mark", "sift")
_NOUNS: Final = ("values", "records", "readings", "counts", "entries", "scores")


@dataclass(frozen=True, slots=True)
class Package:
    """One package."""

    name: str
    steps: tuple[tuple[str, Composed], ...]
    """Module and function, in the order in which they run."""

    def path(self, module: str) -> str:
        """Of a module."""
        return f"{self.name}/{module}.py"

    def files(self, sources: Mapping[str, str] | None = None) -> dict[str, str]:
        """All files but the test; `sources` stand in for the functions of some modules."""
        modules = {
            self.path(module): (sources or {}).get(module, documented(function, function.source)) + "\n"
            for module, function in self.steps
        }
        init = {f"{self.name}/__init__.py": f'"""The {self.name} package."""\n'}
        return {**init, **modules, self.path(RUNNER): self._runner()}

    def test(self, given: JsonValue) -> str:
        """A test of the whole on one input."""
        return (
            f"from {self.name}.{RUNNER} import {RUN}\n\n\ndef test_{RUN}():\n"
            f"    assert {RUN}({given!r}) == {self.value(given)!r}\n"
        )

    def value(self, given: JsonValue) -> JsonValue:
        """What the whole gives."""
        for _, function in self.steps:
            given = loaded(function.source, function.name)(given)
        return given

    def cases(self, rng: random.Random) -> list[Case]:
        """Inputs at the edge and others, with what the whole gives."""
        inputs = [*EDGES[Kind.LIST], *(INPUTS[Kind.LIST](rng) for _ in range(NUM_CASES))]
        return [[[given], self.value(given)] for given in inputs]

    def _runner(self) -> str:
        imports = [f"from {self.name}.{module} import {function.name}" for module, function in self.steps]
        calls = [f"    x = {function.name}(x)" for _, function in self.steps]
        return "\n".join((*imports, "", "", f"def {RUN}(x):", *calls, "    return x", ""))


def drawn(rng: random.Random, num_steps: int) -> Package:
    """A package of so many steps."""
    modules = rng.sample(_MODULES, num_steps)
    return Package(
        rng.choice(_PACKAGES),
        tuple(
            (
                module,
                replace(
                    composed(rng, Kind.LIST, rng.randint(1, 2), may_end=False),
                    name=f"{module}_{rng.choice(_NOUNS)}",
                ),
            )
            for module in modules
        ),
    )


def documented(function: Composed, source: str) -> str:
    """The source of a function with what it should do as its docstring."""
    head, _, body = source.partition("\n")
    words = ", then ".join(function.words)
    return f'{head}\n    """{words[0].upper()}{words[1:]}."""\n{body}'


def shown(files: Mapping[str, str]) -> str:
    """Files in a prompt."""
    return "\n".join(f"FILE: {path}\n```\n{content}```" for path, content in files.items())


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The change as a unified diff."""
    lines: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            lines += difflib.unified_diff(
                (old or "").splitlines(),
                (new or "").splitlines(),
                "/dev/null" if old is None else f"a/{path}",
                "/dev/null" if new is None else f"b/{path}",
                lineterm="",
                n=CONTEXT_LINES,
            )
    return "\n".join(lines)
