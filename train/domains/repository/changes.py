"""Changes to a package: mend what fails its test, rename a function everywhere, move one, and add a step.

A change is judged by calls of the changed package, and by what may no longer stand in its files.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from train.domains.base import Family, Item, Verdict
from train.domains.code.calls import LIMITS, Target, call
from train.domains.code.composing import Case, Composed, composed, loaded
from train.domains.code.judging import arguments, parsed, verdict_on
from train.domains.code.mutants import mutants
from train.domains.code.steps import Kind
from train.domains.repository.edits import FORMAT, MalformedError, edited
from train.domains.repository.package import RUN, RUNNER, Package, diff, documented, drawn, shown
from train.domains.task import Task, TaskDomain
from train.transcript import JsonValue, Transcript

NUM_LEVELS: Final = 3
_OTHER_NAMES: Final = ("prepare", "refine", "adjust", "update", "arrange", "derive", "combine")


def _mended(rng: random.Random, level: int) -> Task:
    while True:
        package = drawn(rng, level + 2)
        module, function = rng.choice(package.steps)
        found = mutants(function)
        cases = package.cases(rng)
        if not found:
            continue
        wrong = rng.choice(found)
        files = package.files({module: documented(function, wrong)})
        failing = _failing(package, module, wrong, cases)
        if failing is not None:
            break
    prompt = (
        f"A package and its test, which fails:\n{shown({**files, 'tests/test_run.py': package.test(failing)})}\n"
        f"Mend the package; every docstring is right. {FORMAT}"
    )
    return Task(prompt, diff(files, package.files()), _data(package, files, cases, module, function))


def _failing(package: Package, module: str, wrong: str, cases: Sequence[Case]) -> JsonValue:
    """An input on which the package with a wrong function gives something else; None if there is none."""
    for given, expected in cases:
        assert isinstance(given, list)
        value: JsonValue = given[0]
        try:
            for name, function in package.steps:
                value = loaded(wrong if name == module else function.source, function.name)(value)
        except Exception:  # noqa: BLE001  a mutant of ours may raise anything
            return given[0]
        if value != expected:
            return given[0]
    return None


def _renamed(rng: random.Random, level: int) -> Task:
    package = drawn(rng, level + 2)
    module, function = rng.choice(package.steps)
    old, new = function.name, f"{rng.choice(_OTHER_NAMES)}_{function.name.partition('_')[2]}"
    files = package.files()
    after = {path: re.sub(rf"\b{old}\b", new, content) for path, content in files.items()}
    prompt = f"{shown(files)}\nRename the function {old} to {new} everywhere. {FORMAT}"
    return Task(
        prompt,
        diff(files, after),
        {
            **_data(package, files, package.cases(rng), module, replace(function, name=new)),
            "gone": old,
        },
    )


def _moved(rng: random.Random, level: int) -> Task:
    package = drawn(rng, level + 2)
    (module, function), (target, other) = rng.sample(package.steps, 2)
    files = package.files()
    after = dict(files)
    del after[package.path(module)]
    after[package.path(target)] += "\n\n" + files[package.path(module)]
    runner = package.path(RUNNER)
    after[runner] = after[runner].replace(
        f"{package.name}.{module} import", f"{package.name}.{target} import"
    )
    prompt = (
        f"{shown(files)}\nMove the function {function.name} into the module {package.name}.{target}, "
        f"beside {other.name}, "
        f"delete {package.path(module)}, and mend the import. {FORMAT}"
    )
    data = _data(package, files, package.cases(rng), target, function)
    return Task(prompt, diff(files, after), {**data, "deleted": package.path(module)})


def _extended(rng: random.Random, level: int) -> Task:
    module = "extra"
    while True:
        package = drawn(rng, level + 1)
        added = composed(rng, Kind.LIST, 1 + level // 2, may_end=False)
        added = replace(added, name=f"{rng.choice(_OTHER_NAMES)}_all")
        whole = replace(package, steps=(*package.steps, (module, added)))
        cases = whole.cases(rng)
        if cases != [[given, package.value(given[0])] for given, _ in cases]:  # type: ignore[index]
            break
    files = package.files()
    prompt = (
        f"{shown(files)}\nAdd a module {package.path(module)} with a function {added.name}(x) that does this: "
        f"{', then '.join(added.words)}. {RUN} must do it last, behind all else. {FORMAT}"
    )
    return Task(prompt, diff(files, whole.files()), _data(whole, files, cases, module, added))


def _data(
    package: Package, files: dict[str, str], cases: list[Case], module: str, function: Composed
) -> dict[str, JsonValue]:
    """What the judge needs: the files, calls of the whole and calls of the function that the change is about."""
    return {
        "files": dict(files),
        "run": [f"{package.name}.{RUNNER}", RUN],
        "cases": list(cases),
        "function": [f"{package.name}.{module}", function.name],
        "function_cases": list(function.hidden),
        "gone": "",
        "deleted": "",
    }


def _judged(item: Item, transcript: Transcript) -> Verdict:
    before = item.data["files"]
    assert isinstance(before, dict)
    try:
        files = edited({path: str(content) for path, content in before.items()}, transcript.answer)
    except MalformedError as error:
        return Verdict(score=0.0, passed=False, evidence=str(error))
    wrong = _forbidden(files, str(item.data["gone"]), str(item.data["deleted"]))
    if wrong:
        return Verdict(score=0.0, passed=False, evidence=wrong)
    targets = [(item.data["run"], item.data["cases"]), (item.data["function"], item.data["function_cases"])]
    asked = [Target(str(name[0]), str(name[1]), arguments(cases)) for name, cases in targets]  # type: ignore[index, arg-type]
    verdicts = [
        verdict_on(calls, f"{one.module}.{one.function}", cases)  # type: ignore[arg-type]
        for calls, one, (_, cases) in zip(call(files, asked, LIMITS), asked, targets, strict=True)
    ]
    return next((verdict for verdict in verdicts if not verdict.passed), verdicts[0])


def _forbidden(files: dict[str, str], gone: str, deleted: str) -> str:
    """What stands in the files and should not; empty if nothing does."""
    if deleted in files:
        return f"{deleted} is still there"
    for path, content in files.items():
        tree = parsed(content)
        if isinstance(tree, str):
            return f"{path}: {tree}"
        if gone and gone in _names(tree):
            return f"{path} still names {gone}"
    return ""


def _names(tree: ast.Module) -> set[str]:
    """Every name in a file, imported, defined or used, also as a text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names |= {name.rpartition(".")[2], other or name}
            case ast.Constant(value=str(text)):
                names |= set(re.findall(r"\w+", text))
    return names


_CHANGES: Final = {
    "mend": ("Mend a package whose test fails, by a diff or whole files; hidden calls decide.", _mended),
    "rename": ("Rename a function in every file of a package; calls and remaining names decide.", _renamed),
    "move": ("Move a function to another module and mend the imports; hidden calls decide.", _moved),
    "extend": ("Add a module to a package and use it; hidden calls decide.", _extended),
}
DOMAINS: Final = tuple(
    TaskDomain(f"repository_{name}", description, draw, _judged, Family.REPOSITORY, NUM_LEVELS)
    for name, (description, draw) in _CHANGES.items()
)
