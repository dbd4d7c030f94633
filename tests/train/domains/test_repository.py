"""Changes to packages: diffs and whole files are read strictly, and what the package then does decides."""

from __future__ import annotations

import random

import pytest

from train.domains import catalog
from train.domains.base import Family
from train.domains.repository.changes import DOMAINS, NUM_LEVELS
from train.domains.repository.edits import MalformedError, edited
from train.domains.repository.package import diff, drawn
from train.domains.task import TaskDomain
from train.sandbox.probe import probe
from train.transcript import answered

BY_NAME = {domain.name.partition("_")[2]: domain for domain in DOMAINS}
FILES = {"p/a.py": "one = 1\ntwo = 2\nthree = 3\n", "p/b.py": "x = 0\nx = 0\n"}
sandboxed = pytest.mark.skipif(probe().isolation is None, reason="nothing isolates here")


def test_all_are_found() -> None:
    """The catalogue has all four, under repositories."""
    found = {domain.name for domain in catalog.by_family()[Family.REPOSITORY]}
    assert {f"repository_{name}" for name in ("mend", "rename", "move", "extend")} <= found


@sandboxed
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
@pytest.mark.parametrize("level", [0, NUM_LEVELS - 1])
def test_the_reference_passes_as_diff_and_as_files(domain: TaskDomain, level: int) -> None:
    """Both forms of the same change are worth 1; nothing, the task and the reference among words are not."""
    item = domain.item(3, 0, level)
    assert item == domain.item(3, 0, level)
    assert domain.verify(item, domain.reference(item)).score == 1
    before = item.data["files"]
    assert isinstance(before, dict)
    after = edited({path: str(content) for path, content in before.items()}, item.answer)
    if not set(before) - set(after):
        assert domain.verify(item, answered(whole(after))).score == 1
    wrong = (
        "",
        "0",
        item.prompt,
        f"{item.answer}\nNo, that is wrong.",
        f"Perhaps {item.answer}",
        whole(dict(before)),
    )  # type: ignore[arg-type]
    for text in wrong:
        assert domain.verify(item, answered(text)).score == 0, text


def whole(files: dict[str, str]) -> str:
    return "\n".join(f"FILE: {path}\n```python\n{content}```" for path, content in files.items())


@sandboxed
@pytest.mark.parametrize(
    "name", ["mend", *(pytest.param(name, marks=pytest.mark.training) for name in BY_NAME if name != "mend")]
)
def test_no_cheat_passes(name: str) -> None:
    """Deleted modules, rewritten tests, constants, exits and broken imports: what does not run has passed nothing."""
    domain = BY_NAME[name]
    item = domain.item(5, 1, 0)
    runner = str(item.data["run"][0]).replace(".", "/") + ".py"  # type: ignore[index]
    package = runner.partition("/")[0]
    module, function = (str(part) for part in item.data["function"])  # type: ignore[union-attr]
    changed = f"{module.replace('.', '/')}.py"
    for cheat in (
        {"tests/test_run.py": "def test_run():\n    pass\n"},
        {runner: "import nothing_of_that_name\n"},
        {runner: "import os\nos._exit(0)\n"},
        {runner: "import sys\nsys.exit(0)\n"},
        {runner: "def run(x):\n    return []\n", changed: f"def {function}(x):\n    return []\n"},
        {runner: "def run(x):\n    return x\n", changed: f"def {function}(x):\n    return x\n"},
        {runner: "class run:\n    def __init__(self, x): pass\n    def __eq__(self, other): return True\n"},
        {f"{package}/__init__.py": "import os\nos._exit(0)\n"},
        {"json.py": "def dumps(value):\n    return 'right'\n", runner: "def run(x):\n    return 0\n"},
        {"_caller.py": "print('passed')\n"},
    ):
        verdict = domain.verify(item, answered(whole(cheat)))
        assert (verdict.score, verdict.error) == (0, None), (name, cheat)
        assert verdict.evidence


@sandboxed
def test_half_a_change_is_none() -> None:
    """A name left somewhere, an import left behind, a file not deleted, a step that is there and not run."""
    item = BY_NAME["rename"].item(2, 0, 1)
    new, old = str(item.data["function"][1]), str(item.data["gone"])  # type: ignore[index]
    before = {path: str(content) for path, content in item.data["files"].items()}  # type: ignore[union-attr]
    after = edited(before, item.answer)
    path = next(path for path, content in after.items() if f"def {new}" in content)
    for partial in (
        {path: after[path]},
        {**after, path: after[path] + f"\n{old} = {new}\n"},
        {**after, path: after[path] + f"\n__all__ = ['{old}']\n"},
    ):
        assert BY_NAME["rename"].verify(item, answered(diff(before, {**before, **partial}))).score == 0
    item = BY_NAME["move"].item(2, 0, 1)
    before = {path: str(content) for path, content in item.data["files"].items()}  # type: ignore[union-attr]
    after = edited(before, item.answer)
    kept = {**before, **after}
    assert "still there" in BY_NAME["move"].verify(item, answered(diff(before, kept))).evidence
    item = BY_NAME["extend"].item(2, 0, 1)
    before = {path: str(content) for path, content in item.data["files"].items()}  # type: ignore[union-attr]
    after = edited(before, item.answer)
    unused = {path: content for path, content in after.items() if path not in before}
    assert BY_NAME["extend"].verify(item, answered(diff(before, {**before, **unused}))).score == 0


def test_levels_are_harder() -> None:
    """A level more is a larger package."""
    for domain in DOMAINS:
        sizes = [
            sum(len(domain.item(1, index, level).prompt) for index in range(10))
            for level in range(NUM_LEVELS)
        ]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]


def test_a_diff_is_undone_by_what_it_was_made_from() -> None:
    """Any change of generated packages, as a diff, gives the same files again."""
    for seed in range(20):
        one, other = (drawn(random.Random(seed + shift), 3).files() for shift in (0, 100))
        assert edited(one, diff(one, other)) == other


def test_diffs_are_read_with_tolerance_for_numbers_alone() -> None:
    """Wrong line numbers do where the context is unique; where it is not, or is another, nothing is changed."""
    head = "--- a/p/a.py\n+++ b/p/a.py\n"
    good = f"{head}@@ -77,3 +77,3 @@\n one = 1\n-two = 2\n+two = 22\n three = 3"
    assert edited(FILES, good)["p/a.py"] == "one = 1\ntwo = 22\nthree = 3\n"
    assert edited(FILES, f"Sure:\n```diff\n{good}\n```") == edited(FILES, good)
    assert (
        edited(FILES, "--- a/p/b.py\n+++ b/p/b.py\n@@ -2 +2 @@\n-x = 0\n+x = 1")["p/b.py"] == "x = 0\nx = 1\n"
    )
    for wrong in (
        f"{head}@@ -1 +1 @@\n-one = 2\n+one = 3",
        "--- a/p/b.py\n+++ b/p/b.py\n@@ -9 +9 @@\n-x = 0\n+x = 1",
        "--- a/p/c.py\n+++ b/p/c.py\n@@ -1 +1 @@\n-x = 0\n+x = 1",
        "--- /dev/null\n+++ b/../../etc/passwd\n@@ -0,0 +1 @@\n+x",
        "--- /dev/null\n+++ b/.hidden.py\n@@ -0,0 +1 @@\n+x",
        f"{good}\nand that is all",
        head,
        "",
        "FILE: p/a.py\n```\none = 1\n```\nDone.",
        "FILE: ../a.py\n```\none = 1\n```",
        f"FILE: p/a.py\n```\n{FILES['p/a.py']}```",
    ):
        with pytest.raises(MalformedError):
            edited(FILES, wrong)
